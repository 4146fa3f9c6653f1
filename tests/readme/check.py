#!/usr/bin/env python3
"""Keeps the README true: runs its transcripts against a real agent, and compares its tables with what the program prints.

check.py README LOCKAGENT [--write]

A transcript is a ```console block: lines that begin with `$ ` are run by bash, in order and in one shell, over an agent and five masters that
deploy/local/run.sh started on free ports; what follows must be their output. Numbers and tokens vary from run to run, so both sides are
compared with every token as TOKEN and every other number but those of status lines and "status" members as N. With --write the README's
outputs and tables are replaced by the real ones.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = re.compile(r"```console\n(.*?)```\n", re.S)
TABLE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->\n)", re.S)


def free_ports(count):
    """A run of free TCP ports; the first is for the agent."""
    for base in range(20000 + os.getpid() % 10000, 60000, count + 1):
        sockets = []
        try:
            for port in range(base, base + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise SystemExit("no free ports")


def normalized(text):
    text = re.sub(r"[0-9a-f]{40}\.\d+", "TOKEN", text)
    lines = []
    for line in text.replace("\r", "").strip("\n").split("\n"):
        if not line.startswith("HTTP/"):
            line = re.sub(r'("status":\s*)(\d+)', lambda m: m[1] + m[2].translate(str.maketrans("0123456789", "abcdefghij")), line)
            line = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", line)
        lines.append(line.rstrip())
    return "\n".join(lines)


def split_block(block):
    """[(command, expected output)]; a command goes on while its line ends with a backslash."""
    steps = []
    lines = block.split("\n")
    while lines:
        line = lines.pop(0)
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + lines.pop(0)
            steps.append([command, ""])
        elif steps:
            steps[-1][1] += line + "\n"
    return steps


class Session:
    """An agent over five masters, and one bash that runs what the README shows."""

    def __init__(self, lockagent):
        self.base = free_ports(6)
        self.output = tempfile.TemporaryFile()
        environment = dict(os.environ, LISTEN=f"127.0.0.1:{self.base}", REDIS_PORT=str(self.base + 1))
        self.agent = subprocess.Popen([os.path.join(ROOT, "deploy/local/run.sh"), lockagent], env=environment, stdin=subprocess.DEVNULL,
                                      stdout=self.output, stderr=self.output, start_new_session=True)
        self.shell = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      cwd=ROOT, text=True,
                                      env=dict(os.environ, PATH=os.path.dirname(lockagent) + ":" + os.environ["PATH"]))
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.base)) == 0 and self.run(f"curl -s -o /dev/null -w '%{{http_code}}' localhost:{self.base}/readyz").strip() == "200":
                    return
            time.sleep(0.1)
        raise SystemExit("the agent did not become ready")

    def here(self, command):
        command = command.replace("localhost:8080", f"localhost:{self.base}")
        return re.sub(r"\b700([1-5])\b", lambda m: str(self.base + int(m[1])), command)

    def run(self, command):
        mark = "--- end of output ---"
        self.shell.stdin.write(f"{self.here(command)}\nprintf '\\n%s\\n' '{mark}'\n")
        self.shell.stdin.flush()
        output = ""
        for line in self.shell.stdout:
            if line == mark + "\n":
                break
            output += line
        output = output[:-1] if output.endswith("\n") else output
        return output.replace(str(self.base), "8080")

    def close(self):
        self.shell.stdin.close()
        self.shell.wait()
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(30)


def main():
    readme, lockagent = sys.argv[1], os.path.abspath(sys.argv[2])
    write = "--write" in sys.argv
    text = open(readme, encoding="utf-8").read()
    passed = failed = 0

    def judge(name, good, detail):
        nonlocal passed, failed
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAILED {name}\n{detail}")

    def table(match):
        real = subprocess.run([lockagent, "docs", match[2]], capture_output=True, text=True, check=True).stdout
        judge(f"table {match[2]}", write or real.strip() == match[3].strip(),
              f"it is not what `lockagent docs {match[2]}` prints; check.py --write mends it")
        return match[1] + real.strip("\n") + "\n" + match[4]

    text = TABLE.sub(table, text)
    session = Session(lockagent)
    try:
        def block(match):
            out = ""
            for command, expected in split_block(match[1]):
                real = session.run(command).replace("\r", "").strip("\n")
                judge(f"$ {command}", write or normalized(real) == normalized(expected),
                      f"README:\n{expected}\nreal:\n{real}\n")
                out += f"$ {command}\n" + (real + "\n" if real else "")
            return f"```console\n{out}```\n"

        text = BLOCK.sub(block, text)
    finally:
        session.close()
    if write:
        open(readme, "w", encoding="utf-8").write(text)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


main()
