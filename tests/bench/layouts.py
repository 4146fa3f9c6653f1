#!/usr/bin/env python3
"""The cost of the comparison of layouts (R23): layouts.py [BUILD FOLDER].

Beside the build from before it, which is made from git, in turns, on the same five masters: the
time from the start of a lone agent to its first lock; and the time of a master for one question for
its marker, as the master counts it. An acquire runs the scripts of before.
"""
import argparse
import re
import signal
import socket
import statistics
import sys
import time

from stage import TOP, Agent, Failure, Stage

sys.path.insert(0, str(TOP / "tests/faults"))
import upgrade

STARTS, ROUNDS, QUESTIONS = 25, 15, 2000
MARKER = "agent/redis/marker.lua"
LAYOUT = "w1 3 lock:=mutex " + " ".join(f"redis-{i}:6379/0" for i in range(5))
KEYS = ["lockagent:marker", "lockagent:votes", "lockagent:layouts"]


def older(path):
    told = upgrade.git("show", f"{upgrade.OLDER}:{path}")
    if told.returncode != 0:
        raise Failure(f"git show {path}: {told.stderr.decode()}")
    return told.stdout.decode()


def changed_scripts():
    told = upgrade.git("diff", "--name-only", upgrade.OLDER, "--", "agent/redis/*.lua")
    return [name for name in told.stdout.decode().split() if name != MARKER]


def first_locks(stage):
    """ms, of each program: the medians."""
    programs = {"before": upgrade.older_agent(stage.build), "with layouts": stage.program}
    found = {name: [] for name in programs}
    for turn in range(STARTS):
        for name in sorted(programs, reverse=turn % 2 == 1):
            agent = Agent(programs[name], stage.folder, stage.masters, "{}", at_once=True)
            stage.others.append(agent)
            found[name].append(1000 * agent.first_lock_s())
            agent.end(signal.SIGKILL)  # it would wait for the holder of the lock
            stage.others.remove(agent)
    return {name: statistics.median(each) for name, each in found.items()}


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.replies = self.socket.makefile("rb")

    def read(self):
        line = self.replies.readline().rstrip()
        if line[:1] == b"-":
            raise Failure(line.decode())
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return self.replies.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" else line[1:]

    def ask(self, *words, times=1):
        words = [str(word).encode() for word in words]
        call = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        self.socket.sendall(call * times)
        return [self.read() for _ in range(times)][-1]


def questions(master):
    """us, of each form of the question: the medians."""
    client = Client(master.port)
    scripts = {
        name: client.ask("SCRIPT", "LOAD", text).decode()
        for name, text in (("old", older(MARKER)), ("new", (TOP / MARKER).read_text()))
    }
    usual = ["", "bench", 60000, "keep", 0, "", int(time.time() * 1e6), "", 0, 0, 0]
    forms = {
        "before": [scripts["old"], 2, *KEYS[:2], *usual],
        "no layout": [scripts["new"], 3, *KEYS, *usual, "", "", 0, ""],
        "one layout": [scripts["new"], 3, *KEYS, *usual, "a" * 16, LAYOUT, 69000, ""],
        "two, in a roll-out": [
            scripts["new"],
            3,
            *KEYS,
            *usual,
            "a" * 16,
            LAYOUT,
            69000,
            "b" * 16 + " ",
        ],
    }
    found = {name: [] for name in forms}
    for turn in range(ROUNDS):
        for name in sorted(forms, reverse=turn % 2 == 1):
            client.ask("DEL", KEYS[2])
            if name.startswith("two"):
                client.ask(
                    *["EVALSHA", scripts["new"], 3, *KEYS, *usual],
                    *["b" * 16, LAYOUT.replace("redis-0", "redis-9"), 69000, ""],
                )
            client.ask("CONFIG", "RESETSTAT")
            answer = client.ask("EVALSHA", *forms[name], times=QUESTIONS)
            if not answer[6] or (name != "before" and answer[9] != b"%d" % (name != "no layout")):
                raise Failure(f"{name}: the master answers {answer}")
            stats = client.ask("INFO", "commandstats").decode()
            found[name].append(float(re.search(r"evalsha:.*usec_per_call=([\d.]+)", stats)[1]))
    return {name: statistics.median(each) for name, each in found.items()}


def show(what, unit, found):
    print(what)
    for name, value in found.items():
        print(f"  {name:20} {value:8.2f} {unit}   {value / found['before']:5.2f} x")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default="build-bench")
    options = parser.parse_args()
    with Stage(options.build) as stage:
        stage.start_masters()
        show("from the start of an agent to its first lock", "ms", first_locks(stage))
        show("a question for the marker", "us", questions(stage.masters[0]))
    changed = changed_scripts()
    print(f"other scripts that have changed: {', '.join(changed) or 'none'}")


if __name__ == "__main__":
    main()
