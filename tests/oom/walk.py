#!/usr/bin/env python3
"""Lets each allocation of a real agent fail once: walk.py BUILD_DIR [--all] [--only NAME] [--at N]

A walk repeats an agent's actions, and the N-th allocation fails in the N-th round; then once more
with a stretch of STRETCH from the N-th on. After any failure the agent must neither abort nor hang
nor leave a lie: it goes on, or ends with a word. A granted key is on its masters. A refused key is
free at once or when its lease is over, and the next caller is served. Without --all rounds are left
out, so that the walks take half a minute together. The first round is drawn, and printed. The last
line is `N passed, N failed`.
"""
import argparse
import concurrent.futures
import contextlib
import http.client
import json
import mmap
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/faults")]
from marking import mark_master
from means import eventually, free_ports

PATIENCE_S = 15
MASTERS, TTL_MS = 3, 1000
STRETCH, NEVER = 25, 1 << 31
FACTS, STORY = struct.Struct("=IIIIII"), 3000  # struct page of fail_alloc.c

# Libraries that abort when they have no memory: a part of the file's name, and the function of its
# interface that was called. lockagent could do nothing differently.
LIBRARY_ABORTS = {
    ("libuv.so", "uv_poll_start"): "the table of watched descriptors cannot grow (maybe_resize)",
    ("libuv.so", "uv_signal_init"): "the same, for the descriptor of the signals",
}


class Wrong(Exception):
    """A state that must not occur."""


class Taken(Exception):
    """Another process has the port."""


class Page:
    """The page that fail_alloc.c reads and writes."""

    def __init__(self, path):
        self.path = path
        pathlib.Path(path).write_bytes(bytes(8192))
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8192)

    def arm(self, first, length):
        self.memory[:] = bytes(8192)
        self.memory[: FACTS.size] = FACTS.pack(0, first, length, 0, 0, 0)
        self.memory[0:4] = struct.pack("=I", 1)

    def disarm(self):
        self.memory[0:4] = bytes(4)

    count = property(lambda self: FACTS.unpack_from(self.memory)[3])
    failed = property(lambda self: FACTS.unpack_from(self.memory)[4])
    signal = property(lambda self: FACTS.unpack_from(self.memory)[5])

    def story(self, number):
        at = FACTS.size + number * STORY
        return self.memory[at : at + STORY].split(b"\0")[0].decode().splitlines()

    failed_at = property(lambda self: self.story(0))
    ended_at = property(lambda self: self.story(1))


class Agent:
    """`lockagent serve`, whose allocations fail as its page says."""

    def __init__(self, stage, name):
        self.stage, self.name, self.port = stage, name, None
        self.config, self.log = stage.path(f"{name}.yaml"), stage.path(f"{name}.log")
        self.page = Page(stage.path(f"{name}.page"))
        self.process = None

    def spawn(self, ttl="7s"):
        self.configure(ttl)
        self.port = None
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [self.stage.lockagent, "serve", "--config", self.config],
                stdout=log,
                stderr=log,
                env=self.stage.environment(self.page),
            )

    def configure(self, ttl):
        new = pathlib.Path(self.config + ".new")
        new.write_text(self.stage.config(ttl), encoding="ascii")
        new.replace(self.config)

    def said(self):
        return pathlib.Path(self.log).read_text(encoding="utf-8", errors="replace")

    def logged(self, message):
        return self.said().count(f'"msg":"{message}"')

    def is_listening(self):
        for line in self.said().splitlines():
            with contextlib.suppress(ValueError):
                known = json.loads(line)
                if known.get("msg") == "listening":
                    self.port = int(known["address"].rpartition(":")[2])
        return self.port is not None

    def has_ended(self):
        return self.process.poll() is not None

    def is_ready(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            status, answer = self.call("GET", "/readyz")
            return status == 200 and not any(group["not_up"] for group in answer["groups"])
        return False

    def start(self):
        """One whose allocations succeed."""
        self.page.disarm()
        self.spawn()
        eventually(lambda: self.has_ended() or (self.is_listening() and self.is_ready()))
        if self.has_ended() or not self.is_ready():
            raise Wrong(f"never ready: {self.said()[-2000:]}")

    def call(self, method, path, patience_s=PATIENCE_S):
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=patience_s)
        try:
            caller.request(method, path)
            reply = caller.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if text.startswith(b"{") else {}
        finally:
            caller.close()

    def tries(self, method, path):
        """The same; (None, {}): its connection was closed without an answer."""
        try:
            return self.call(method, path)
        except TimeoutError as late:
            raise Wrong(f"{method} {path}: no answer for {PATIENCE_S} s") from late
        except (OSError, http.client.HTTPException, ValueError):
            return None, {}

    def close(self):
        if self.process is not None and not self.has_ended():
            self.process.kill()
            self.process.wait()


class Stage:
    """Three masters, which outlive a walk's agents. One of them uses TLS alone if wanted."""

    def __init__(self, build, over_tls):
        self.over_tls = over_tls
        self.lockagent = str(build / "lockagent")
        self.library = str(build / "tests/oom/fail-alloc.so")
        self.folder = tempfile.mkdtemp(prefix="lockagent-oom-")
        self.masters, self.ways = [], []
        self.tls_port = 0

    def path(self, name):
        return f"{self.folder}/{name}"

    def environment(self, page):
        return os.environ | {"LD_PRELOAD": self.library, "FAIL_ALLOC_PAGE": page.path}

    def open(self):
        for number in range(MASTERS):
            self.start_master(
                ["-s", self.path(f"m{number}")], "--unixsocket", self.path(f"m{number}")
            )
        if self.over_tls:
            self.start_master_over_tls()

    def start_master_over_tls(self):
        self.make_certificate()
        files = {name: self.path(f"tls.{name}") for name in ("crt", "key")}
        for port in free_ports(5):
            self.tls_port = port
            with contextlib.suppress(Taken):
                return self.start_master(
                    ["-p", port, "--tls", "--cacert", files["crt"]],
                    *("--tls-port", str(port), "--tls-auth-clients", "no"),
                    *("--tls-cert-file", files["crt"], "--tls-key-file", files["key"]),
                    *("--tls-ca-cert-file", files["crt"]),
                )
        raise Wrong("no free port")

    def make_certificate(self):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
            + [
                "-nodes",
                "-days",
                "2",
                "-subj",
                "/CN=master",
                "-addext",
                "subjectAltName=IP:127.0.0.1",
            ]
            + ["-keyout", self.path("tls.key"), "-out", self.path("tls.crt")],
            check=True,
            capture_output=True,
        )

    def start_master(self, way, *options):
        with open(self.path(f"master{len(self.masters)}.log"), "wb") as log:
            self.masters.append(
                subprocess.Popen(
                    ["redis-server", "--port", "0", "--save", "", "--dir", self.folder, *options],
                    stdout=log,
                    stderr=log,
                )
            )
        self.ways.append([str(word) for word in way])
        number, master = len(self.ways) - 1, self.masters[-1]
        if not eventually(lambda: self.ask(number, "PING") == "PONG" or master.poll() is not None):
            raise Wrong(f"master {number} does not start")
        if master.poll() is not None:
            self.masters.pop()
            self.ways.pop()
            raise Taken
        mark_master(*way)

    def ask(self, number, *words):
        asked = subprocess.run(
            ["redis-cli", *self.ways[number], *words], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()

    def config(self, ttl):
        plain = ", ".join(f'"unix:{self.path(f"m{number}")}"' for number in range(MASTERS))
        group = (
            f'    tls: {{masters: ["rediss://127.0.0.1:{self.tls_port}"], node_timeout: 200ms,'
            f" durable: true, tls: {{ca_file: {self.path('tls.crt')}}}}}\n"
        )
        return (
            "listen: 127.0.0.1:0\n"
            "redis:\n  groups:\n"
            f"    main: {{masters: [{plain}], node_timeout: 200ms, durable: true}}\n"
            f"{group if self.over_tls else ''}"
            f"policies:\n{self.tls_policy()}  - {{match: '*', group: main, ttl: {ttl}}}\n"
            "log: {level: info, format: json}\nshutdown: {grace: 100ms}\n"
        )

    def tls_policy(self):
        return "  - {match: 'tls/*', group: tls}\n" if self.over_tls else ""

    def masters_with(self, key):
        return sum(self.ask(number, "EXISTS", f"lock:{key}") == "1" for number in range(MASTERS))

    def keys(self):
        found = set()
        for number in range(len(self.masters)):
            found |= set(self.ask(number, "KEYS", "lock:*").split())
        return found

    def close(self):
        for master in self.masters:
            master.kill()
            master.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


# ---- messages about an end


def told(stage, story):
    """A story of fail_alloc.c's, with the agent's own functions by name."""
    lines = []
    for line in story:
        place, symbol = line.split(" ", 1)
        file, _, offset = place.partition("+")
        if file == "lockagent" and shutil.which("addr2line"):
            found = subprocess.run(
                ["addr2line", "-f", "-s", "-i", "-e", stage.lockagent, hex(int(offset, 16) - 1)],
                capture_output=True,
                text=True,
                check=False,
            ).stdout.split("\n")
            symbol = " <- ".join(f"{a} ({b})" for a, b in zip(found[::2], found[1::2]))
        lines.append(f"    {place} {symbol}")
    return "\n".join(lines)


def library_abort(page):
    """The library and function that aborted by itself; None: it was not a library."""
    frames = [line.split(" ", 1) for line in page.ended_at]
    files = [place.split("+")[0] for place, _ in frames]
    blamed = next((at for at, file in enumerate(files) if not file.startswith("libc.so")), None)
    for (library, function), _ in LIBRARY_ABORTS.items():
        if blamed is not None and library in files[blamed]:
            if any(symbol == function for _, symbol in frames[blamed:]):
                return library, function
    return None


# ---- the walks


class Walk:
    """One thing that an agent does again and again, while an allocation of its fails."""

    # share: how much longer than others it may take
    name, serves, over_tls, share = "", True, False, 1

    def __init__(self, build):
        self.stage = Stage(build, self.over_tls)
        self.agent = Agent(self.stage, "agent")
        self.page, self.rounds, self.reached, self.aborts = self.agent.page, 0, 0, {}

    def act(self, number):
        """While it is armed. Raises Wrong."""

    def look(self, number):
        """Afterwards."""

    def begin(self):
        if self.serves and (self.agent.process is None or self.agent.has_ended()):
            self.agent.start()

    def round(self, first, length, number):
        """Returns how many allocations there were, and how many failed."""
        self.begin()
        self.prepare(number)
        self.page.arm(first, length)
        try:
            self.act(number)
        finally:
            self.page.disarm()
        count, failed = self.page.count, self.page.failed
        if self.page.signal or self.died():
            blamed = library_abort(self.page)
            if blamed is None:
                raise Wrong(f"it ended by signal {self.page.signal}: {self.agent.process}")
            self.aborts[blamed] = self.aborts.get(blamed, 0) + 1
        else:
            self.look(number)
        return count, failed

    def prepare(self, number):
        pass

    def died(self):
        return self.serves and self.agent.has_ended()

    def walk(self, everything, at, share_s):
        self.begin()
        counts = [self.round(NEVER, 1, f"free{i}")[0] for i in range(3)]
        most, until = max(counts), time.monotonic() + share_s
        begin = time.monotonic()
        self.round(NEVER, 1, "timed")
        each_s = max(time.monotonic() - begin, 0.01)
        stride = 1 if everything else max(1, int(2 * most * each_s / share_s) + 1)
        offset = at or random.randrange(1, stride + 1)
        plan = [at] if at else range(offset, most + 1, stride)
        for length in (1, STRETCH):
            for first in plan:
                if not everything and time.monotonic() > 2 * share_s + until:
                    break
                self.rounds += 1
                self.one(first, length)
        self.agent.close()
        return f"{most} allocations, {self.reached} rounds of {self.rounds} reached theirs, " + (
            f"every {stride}. from {offset}"
        )

    def one(self, first, length):
        try:
            _, failed = self.round(first, length, f"{first}.{length}")
        except Wrong as wrong:
            raise Wrong(
                f"allocation {first}, {length} in a row: {wrong}\n  it failed at\n"
                f"{told(self.stage, self.page.failed_at)}\n  it ended at\n"
                f"{told(self.stage, self.page.ended_at)}\n  and said\n{self.agent.said()[-1500:]}"
            ) from wrong
        self.reached += failed > 0

    # ---- shared functions of several

    def expect_service(self, key, group=""):
        """The next caller gets the lock, at the latest when a lease is over."""
        path = f"/locks/{group}{key}"
        until = time.monotonic() + PATIENCE_S
        status = None
        while status != 201 and time.monotonic() < until:
            status, answer = self.agent.tries("POST", f"{path}?ttl={TTL_MS}ms&wait=3s")
        if status != 201:
            raise Wrong(f"the next caller is not served: {status} {answer}")
        status, answer = self.agent.tries("DELETE", f"{path}?token={answer['token']}")
        if status != 204:
            raise Wrong(f"the next caller's release: {status} {answer}")


class Acquire(Walk):
    name, parameters = "an acquire and its release", f"?ttl={TTL_MS}ms"

    def act(self, number):
        key, self.release = f"acquire{number}", None
        status, answer = self.agent.tries("POST", f"/locks/{key}{self.parameters}")
        if status == 201:
            if self.stage.masters_with(key) * 2 <= MASTERS:
                raise Wrong("it is granted, and most masters do not have it")
            self.release = f"/locks/{key}?token={answer['token']}"
            self.agent.tries("DELETE", self.release)
        elif status is not None and "code" not in answer:
            raise Wrong(f"{status} without a code: {answer}")

    def look(self, number):
        if self.release:
            self.agent.tries("DELETE", self.release)
        self.expect_service(f"acquire{number}")


class AcquireWatched(Acquire):
    name, parameters = "an acquire with the watchdog", ""


class Waiter(Walk):
    name, share = "a caller that waits", 2

    def prepare(self, number):
        for master in range(MASTERS):
            self.stage.ask(master, "CLIENT", "KILL", "TYPE", "pubsub")
        key = f"/locks/waiter{number}"
        status, answer = self.agent.tries("POST", f"{key}?ttl=3s&wait=3s")
        if status != 201:
            raise Wrong(f"the holder is not served: {status} {answer}")
        self.release = f"{key}?token={answer['token']}"

    def act(self, number):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            path = f"/locks/waiter{number}?ttl={TTL_MS}ms&wait=5s"
            waiter = pool.submit(self.agent.tries, "POST", path)
            time.sleep(0.3)  # a tick of the room that subscribes
            self.agent.tries("DELETE", self.release)
            self.waited = waiter.result()

    def look(self, number):
        self.agent.tries("DELETE", self.release)
        status, answer = self.waited
        if status is not None and status != 201 and "code" not in answer:
            raise Wrong(f"{status} without a code: {answer}")
        if status == 201:
            token = answer["token"]
            self.agent.tries("DELETE", f"/locks/waiter{number}?token={token}")
        self.expect_service(f"waiter{number}")


class Stream(Walk):
    name = "a watch of a hold"

    def act(self, number):
        key = f"/locks/stream{number}"
        status, answer = self.agent.tries("POST", f"{key}?ttl={TTL_MS}ms&label=x")
        if status != 201:
            return
        with contextlib.suppress(OSError, http.client.HTTPException):
            caller = http.client.HTTPConnection("127.0.0.1", self.agent.port, timeout=PATIENCE_S)
            caller.request("GET", f"{key}?watch")
            reply = caller.getresponse()
            self.agent.tries("DELETE", f"{key}?token={answer['token']}")
            try:
                reply.read()  # until the hold ends, or the lease
            except TimeoutError as late:
                raise Wrong("the watch does not end") from late
            finally:
                caller.close()

    def look(self, number):
        self.expect_service(f"stream{number}")


class Reload(Walk):
    name = "a reload"

    def begin(self):
        super().begin()
        self.ttl = self.ttl_now()

    def ttl_now(self):
        status, answer = self.agent.tries("POST", "/locks/reload?wait=3s")
        if status != 201:
            raise Wrong(f"no lock: {status} {answer}")
        self.agent.tries("DELETE", f"/locks/reload?token={answer['token']}")
        return answer["ttl_ms"]

    def act(self, number):
        self.wanted = 9000 if self.ttl == 7000 else 7000
        self.agent.configure(f"{self.wanted}ms")
        before = self.words()
        self.agent.process.send_signal(signal.SIGHUP)
        heard = lambda: self.agent.has_ended() or self.words() != before
        if not eventually(heard):
            raise Wrong("no word on a reload")
        self.done = self.words()[0] > before[0]

    def words(self):
        return self.agent.logged("configuration reloaded"), self.agent.logged(
            "configuration refused"
        )

    def look(self, number):
        expected = self.wanted if self.done else self.ttl
        if self.ttl_now() != expected:
            raise Wrong(f"reloaded: {self.done}; and the ttl is not {expected} ms")


class Reconnect(Walk):
    name = "new connections to all masters"

    def act(self, number):
        for master in range(len(self.stage.masters)):
            self.stage.ask(master, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        eventually(lambda: self.agent.has_ended() or self.agent.is_ready(), 1)

    def look(self, number):
        if not eventually(self.agent.is_ready):
            raise Wrong(f"a master is not reached again: {self.agent.tries('GET', '/readyz')}")
        self.expect_service(f"reconnect{number}")
        if self.over_tls:
            self.expect_service(f"reconnect{number}", "tls/")


class ReconnectOverTLS(Reconnect):
    name, over_tls = "new connections, one over TLS", True


class Start(Walk):
    name, serves, share = "a start", False, 3

    def act(self, number):
        self.agent.close()
        self.agent.spawn()
        listens = lambda: self.agent.port is not None or self.agent.is_listening()
        if not eventually(lambda: self.agent.has_ended() or (listens() and self.agent.is_ready())):
            raise Wrong("it neither ends nor becomes ready")

    def look(self, number):
        if self.agent.has_ended():
            if self.agent.process.returncode not in (1, 127) or not self.agent.said().strip():
                raise Wrong(f"it ended with {self.agent.process.returncode}")
            return
        self.expect_service(f"start{number}")
        if self.rounds % 4 > 0:
            return  # the next start kills it: an end in order takes its time
        self.agent.process.send_signal(signal.SIGTERM)
        if not eventually(self.agent.has_ended) or self.agent.process.returncode != 0:
            raise Wrong(f"its end: {self.agent.process.returncode}")


class StartOverTLS(Start):
    name, over_tls = "a start, with a master over TLS", True


class Run(Walk):
    name, serves = "lockagent run", False

    def act(self, number):
        self.agent.configure("7s")
        mark = self.stage.path(f"ran{number}")
        command = [self.stage.lockagent, "run", "--config", self.agent.config, "--ttl", "1s"]
        with open(self.agent.log, "wb") as log:
            process = subprocess.Popen(
                [*command, "--wait", "5s", f"run{number}", "--", "touch", mark],
                stdout=log,
                stderr=log,
                env=self.stage.environment(self.page),
            )
            try:
                self.code = process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired as late:
                process.kill()
                process.wait()
                raise Wrong(f"it has not ended after {PATIENCE_S} s") from late
        self.ran = os.path.exists(mark)

    def look(self, number):
        if self.code == 0 and not self.ran:
            raise Wrong("it ended with 0, and the command did not run")
        if self.code != 0 and not self.agent.said().strip():
            raise Wrong(f"it ended with {self.code} without a word")
        if self.code < 0:
            raise Wrong(f"it ended by signal {-self.code}")


class RunOverTLS(Run):
    name, over_tls = "lockagent run, with a master over TLS", True


WALKS = (
    *(
        Start,
        StartOverTLS,
        Acquire,
        AcquireWatched,
        Waiter,
        Stream,
        Reload,
        Reconnect,
        ReconnectOverTLS,
    ),
    *(Run, RunOverTLS),
)


def play(walk, options):
    try:
        walk.stage.open()
        said = walk.walk(options.all, options.at, options.share_s * walk.share)
        if not eventually(lambda: not walk.stage.keys()):
            raise Wrong(f"keys that nobody holds: {sorted(walk.stage.keys())[:9]}")
        return True, f"{walk.name}: {said}"
    except Wrong as wrong:
        return False, f"{walk.name}: {wrong}"
    finally:
        walk.agent.close()
        walk.stage.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--all", action="store_true", default="OOM_ALL" in os.environ)
    parser.add_argument("--only", default="")
    parser.add_argument("--at", type=int, default=0)
    parser.add_argument("--for", type=float, default=2, dest="share_s")
    options = parser.parse_args()
    named = [kind for kind in WALKS if kind.name == options.only]
    kinds = named or [kind for kind in WALKS if options.only in kind.name]
    walks = [kind(options.build) for kind in kinds]
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for well, text in pool.map(lambda walk: play(walk, options), walks):
            print("ok     " if well else "FAILED ", text, flush=True)
            passed, failed = passed + well, failed + (not well)
    for walk in walks:
        for blamed, times in walk.aborts.items():
            print(
                f"        {walk.name}: {blamed[0]} aborted {times} times: {LIBRARY_ABORTS[blamed]}"
            )
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
