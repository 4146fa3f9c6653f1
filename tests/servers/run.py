#!/usr/bin/env python3
"""The servers on which agents work: the integration tests, those of the Redis room, and the hazards
on each of them.

run.py BUILD_DIR [--only PART] [--quick] [--write]

Other releases' servers are fetched by fetch.sh into build-servers, and skipped with a word if the
mirror does not have them. --quick plays the hazards alone, on Valkey alone. A program that fails is
run again alone, up to three times, for the machine may be busy; that is said, and it is named if it
still fails. The table in docs/interop.md is compared; --write puts the rows there that were run.
The last line is `N passed, N failed`.
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/faults")]
from marking import mark_master
from means import free_ports

HERE, PAGE = TOP / "tests/servers", TOP / "docs/interop.md"
TABLE = re.compile(r"(?<=<!-- servers -->\n).*?(?=<!-- end of servers -->)", re.S)
HEAD = "| server | from | integration tests | hazards |\n| --- | --- | --- | --- |\n"
PASS = "pass"
TRIES_ALONE = 3


class Server:
    """`suite`, `package` and `program`: the place from which fetch.sh gets it; none for the
    machine's own.
    """

    def __init__(self, name, origin, *wanted):
        self.name, self.origin, self.wanted, self.path = name, origin, wanted, None

    def fetch(self):
        """Why it is not to be had, or None."""
        if not self.wanted:
            return None
        folder = TOP / "build-servers" / "-".join(self.wanted[:2])
        command = [HERE / "fetch.sh", *self.wanted, folder]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return "not fetched within 300 s"
        self.path = folder / "redis-server"
        return None if ended.returncode == 0 else (ended.stderr.strip() or "?").splitlines()[-1]

    def run(self, *command):
        """Runs the command with this `redis-server`. Returns if it ended well, and its output."""
        before = [HERE / "with.sh", self.path] if self.path else []
        ended = subprocess.run(
            [*before, *command], capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        return ended.returncode == 0, ended.stdout + ended.stderr


SERVERS = [
    Server("Redis 7.0", "Debian 12"),
    Server("Redis 8.0", "Debian 13", "trixie", "redis-server", "redis-server"),
    Server("Valkey 8.1", "Debian 13", "trixie", "valkey-server", "valkey-server"),
    Server("Valkey 9.1", "Debian testing", "testing", "valkey-server", "valkey-server"),
]
OLD = Server("Redis 6.0", "Debian 11", "bullseye", "redis-server", "redis-server")


# ---- programs that run on a server -------------------------------------------------------------


def programs(build):
    """The integration programs, and those of the Redis room; other tests are not about servers."""
    command = ["meson", "test", "-C", build, "--list", "--no-rebuild"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if re.match("integration-|redis(_|$)", name)]


def tests_that_fail(server, build, names):
    """Of `names`."""
    base = f"server-{server.name.replace(' ', '-')}"
    log = build / "meson-logs" / f"{base}.json"
    log.unlink(missing_ok=True)
    server.run(
        *["meson", "test", "-C", build, "--no-rebuild", "-q", "--logbase", base],
        *["--timeout-multiplier", "3", *names],
    )
    if not log.exists():
        return names
    results = [json.loads(line) for line in log.read_text(errors="replace").splitlines()]
    good = {each["name"].split(" / ")[-1] for each in results if each["result"] == "OK"}
    return [name for name in names if name not in good]


def integration(server, build):
    failed = tests_that_fail(server, build, programs(build))
    for _ in range(TRIES_ALONE):
        again, failed = failed, []
        for name in again:
            print(f"       once more, alone: {name}", flush=True)
            failed += tests_that_fail(server, build, [name])
    return failed


def hazards(server, build):
    """The rows that fail."""
    failed, rows = [], [None]
    for _ in range(2):
        failed = []
        for row in rows:
            only = ["--only", row] if row else []
            good, said = server.run(TOP / "tests/hazards/run.py", build, *only)
            lines = [line for line in said.splitlines() if line.startswith("FAILED")]
            names = [line.split(" | ")[1] for line in lines if " | " in line]
            failed += names or ([] if good else [row or "?"])
        if not failed or "?" in failed:
            break
        rows = failed
    return failed


# ---- a server that is too old ------------------------------------------------------------------


def asked(port, method, path):
    """Status and text; 0 while no server listens."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def seen_within(seconds, condition):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as asked_it:
        asked_it.sendall(b"PING\r\n")
        return asked_it.recv(5) == b"+PONG"
    return False


def grants_and_loses(build):
    """On Redis 6.0 an acquire is granted, no renewal is confirmed, and the hold is said to be lost
    before the validity that was told has ended."""
    port, api = free_ports(2)
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "lockagent.yaml"
        config.write_text(
            f"listen: 127.0.0.1:{api}\nlog: {{level: error}}\n"
            f"redis: {{groups: {{main: {{masters: [redis://127.0.0.1:{port}], durable: true}}}}}}\n"
        )
        words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        quiet["stderr"] = subprocess.DEVNULL
        master = subprocess.Popen([OLD.path, *words], **quiet)
        agent = None
        try:
            if not seen_within(15, lambda: answers(port)):
                return "the server does not answer"
            mark_master("-p", port)
            agent = subprocess.Popen([build / "lockagent", "--config", config], **quiet)
            if not seen_within(15, lambda: asked(api, "GET", "/readyz")[0] == 200):
                return "the agent is not ready"
            status, _ = asked(api, "POST", "/locks/old?ttl=2s&renew=agent")
            if status != 201:
                return f"not granted: {status}"
            lost = "lockagent_locks_lost_total"
            held = seen_within(
                4,
                lambda: any(
                    line.startswith(lost) and float(line.split()[-1]) > 0
                    for line in asked(api, "GET", "/metrics")[1].splitlines()
                ),
            )
            return None if held else "a hold is not lost"
        finally:
            for process in filter(None, (agent, master)):
                process.kill()
                process.wait()


# ---- the table ---------------------------------------------------------------------------------


def cell(failed):
    return PASS if not failed else "**fail**: " + ", ".join(f"`{name}`" for name in failed)


def compare(rows, write, clean):
    """The rows that were run, beside those of the page."""
    text = PAGE.read_text(encoding="utf-8")
    shown = {line.split(" | ")[0]: line for line in TABLE.search(text)[0].splitlines()[2:]}
    if write and clean:
        lines = [shown.get(f"| {each.name}", "") for each in SERVERS + [OLD]]
        order = [rows.get(each.name) or line for each, line in zip(SERVERS + [OLD], lines)]
        table = HEAD + "".join(line + "\n" for line in order if line)
        PAGE.write_text(TABLE.sub(lambda _: table, text), encoding="utf-8")
        return []
    return [name for name, row in rows.items() if shown.get(f"| {name}") != row]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=lambda name: pathlib.Path(name).resolve())
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)  # behind `&`, the tests would ignore them
    os.environ.pop("LOCKAGENT_SOURCE", None)
    passed, bad, rows = 0, [], {}
    for server in SERVERS:
        if options.only not in server.name or options.quick and "Valkey" not in server.name:
            continue
        if why := server.fetch():
            print(f"skipped {server.name}: {why}", flush=True)
            continue
        suites = [hazards] if options.quick else [integration, hazards]
        cells = {}
        for suite in suites:
            failed = suite(server, options.build)
            cells[suite] = cell(failed)
            passed, bad = passed + (not failed), bad + failed
            print(f"{server.name}, {suite.__name__}: {cells[suite]}", flush=True)
        if not options.quick:
            cells = " | ".join(cells.values())
            rows[server.name] = f"| {server.name} | {server.origin} | {cells} |"
    if options.only in OLD.name and not options.quick:
        if why := OLD.fetch():
            print(f"skipped {OLD.name}: {why}", flush=True)
        elif trouble := grants_and_loses(options.build):
            print(f"{OLD.name}: {trouble}", flush=True)
            bad.append(OLD.name)
        else:
            passed += 1
            word = "**no**: locks are granted, and none can be renewed"
            rows[OLD.name] = f"| {OLD.name} | {OLD.origin} | {word} | - |"
            print(f"{OLD.name}: as the table has it", flush=True)
    for name in compare(rows, options.write, not bad):
        print(f"FAILED the row of {name} in {PAGE.name} is another one; make servers WRITE=1")
        bad.append(name)
    print(f"{passed} passed, {len(bad)} failed")
    return 0 if passed and not bad else 1


if __name__ == "__main__":
    sys.exit(main())
