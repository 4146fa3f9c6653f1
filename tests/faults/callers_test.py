#!/usr/bin/env python3
"""The callers of the fault suite do as they say: callers_test.py CALLERS. In place of an agent a
server that forgets to answer."""
import contextlib
import http.server
import itertools
import json
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

TTL_MS = 300
# The callers run for so long, and on a busy machine until they have had so many locks, and have
# looked so often if they are answered.
WARM_S, GRANTS, LOOKS, PATIENCE_S = 2.5, 100, 10, 30
FENCES = itertools.count(1)


def boottime_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


class Agent(http.server.ThreadingHTTPServer):
    """Grants every lock. It hangs up on a caller that asks about a watchdog's lock, and on the
    first DELETE of each. If it keeps `holds`, a look is answered with them."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.granted_ms, self.watchdogs, self.asked_to_release, self.released, self.renewed = (
            {},
            set(),
            set(),
            set(),
            {},
        )
        self.vanishing, self.prolonged, self.holds, self.asked = set(), 0, None, set()
        self.looks, self.slots = 0, set()

    def has_seen_enough(self):
        looks = self.holds is None or self.looks >= LOOKS and len(self.slots) == 8
        return len(self.granted_ms) >= GRANTS and looks

    def handle_error(self, *_):
        """A caller that has hung up."""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def hold(self, status, token, fence, **more):
        self.say(
            status,
            {
                "token": token,
                "fencing_token": fence,
                "valid_until_boottime_ms": boottime_ms() + TTL_MS,
                "valid_for_ms": TTL_MS,
                **more,
            },
        )

    def of_kind(self, key, mode):
        """The other members of the answers about a key, by its name."""
        if key.startswith("/locks/rw/"):
            return {"mode": mode}
        permits = {"/locks/two/": 2, "/locks/eight/": 8}.get(key[: key.rindex("/") + 1])
        return {"slot": next(FENCES) % permits, "permits": permits} if permits else {}

    def say(self, status, body=None):
        text = json.dumps(body).encode() if body else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        key, asked = self.path.split("?")[0], urllib.parse.parse_qs(self.path.split("?")[1])
        kind = self.of_kind(key, asked.get("mode", ["write"])[0])
        with self.server.lock:
            fence = next(FENCES)
            token = f"{fence:040x}.{fence}"
            self.server.asked.add((key, *asked.get("mode", [])))
            if self.server.holds is not None:
                mine = {"label": asked["label"][0], "fencing_token": fence, **kind}
                self.server.holds[token] = (key, mine)
            self.server.granted_ms[token] = boottime_ms()
            if asked["renew"] == ["agent"]:
                self.server.watchdogs.add(token)
                if asked["max_hold"] == [f"{TTL_MS}ms"]:
                    self.server.vanishing.add(token)
        self.hold(201, token, fence, **kind)
        if kind.get("permits") == 8:
            self.server.slots.add(kind["slot"])

    def do_GET(self):
        if self.server.holds is None:
            self.close_connection = True
            return
        times = {"valid_until_boottime_ms": boottime_ms() + TTL_MS, "valid_for_ms": TTL_MS}
        with self.server.lock:
            self.server.looks += 1
            holds = [mine for key, mine in self.server.holds.values() if key == self.path]
        self.say(200, {"holds": [{**mine, **times} for mine in holds]})

    def do_PUT(self):
        token = self.headers["Lock-Token"]
        self.server.prolonged += token in self.server.vanishing and "renew=agent" in self.path
        if token in self.server.watchdogs or token not in self.server.granted_ms:
            self.close_connection = True
            return
        with self.server.lock:
            self.server.renewed.setdefault(token, set()).add(self.server.server_port)
        self.hold(200, token, int(token.split(".")[1]))

    def do_DELETE(self):
        token = self.headers["Lock-Token"]
        with self.server.lock:
            first = token in self.server.watchdogs and token not in self.server.asked_to_release
            self.server.asked_to_release.add(token)
            if not first:
                self.server.released.add(token)
                (self.server.holds or {}).pop(token, None)
        if first:
            self.close_connection = True
        elif token in self.server.granted_ms:
            self.say(204)
        else:
            self.say(412, {"code": "token_mismatch"})


@contextlib.contextmanager
def agents(count):
    servers = [Agent() for _ in range(count)]
    for server in servers:
        server.granted_ms, server.watchdogs, server.renewed = (
            servers[0].granted_ms,
            servers[0].watchdogs,
            servers[0].renewed,
        )
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def run(program, servers, *options, vanish=0):
    with tempfile.NamedTemporaryFile(prefix="lockagent-callers-") as history:
        arguments = [
            program,
            "1",
            str(TTL_MS),
            "24",
            "2",
            str(vanish),
            history.name,
            *options,
            *(str(server.server_port) for server in servers),
        ]
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, text=True) as callers:
            time.sleep(WARM_S)
            until = time.monotonic() + PATIENCE_S
            while not servers[0].has_seen_enough() and time.monotonic() < until:
                time.sleep(0.1)
            callers.stdin.write("stop\n")
            callers.stdin.flush()
            assert callers.wait(10) == 0
        with open(history.name, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


def gives_back_what_it_believes_expired(program):
    with agents(1) as (agent,):
        events = run(program, [agent])
        long_ago = boottime_ms() - 1000
        expected = {token for token in agent.watchdogs if agent.granted_ms[token] < long_ago}
        assert len(expected) > 10, len(expected)
        assert (
            expected <= agent.released
        ), f"{len(expected - agent.released)} of {len(expected)} are never given back"
        expired = {event["hold"] for event in events if event["op"] == "expire"}
        assert expired & agent.watchdogs, "no watchdog's lock expired"
        for hold in expired & agent.watchdogs:
            ends = [
                event["op"]
                for event in events
                if event["hold"] == hold and event["op"] in ("expire", "release", "write")
            ]
            assert "write" not in ends[ends.index("expire") :], "written after the end"


def strays_only_when_told_to(program):
    for options, wanted in (([], False), (["stray=500"], True)):
        with agents(2) as servers:
            events = run(program, servers, *options)
            both = [token for token, ports in servers[0].renewed.items() if len(ports) == 2]
            assert (
                servers[0].renewed and (len(both) > 3) == wanted
            ), f"{len(both)} were renewed at two agents"
            home = {event["hold"]: event["agent"] for event in events if event["op"] == "acquire"}
            away = [
                event
                for event in events
                if event["op"] in ("renew", "release") and event["agent"] != home[event["hold"]]
            ]
            assert bool(away) == wanted, f"{len(away)} questions to another agent"
            assert {event["agent"] for event in events if event["op"] == "acquire"} == {
                0,
                1,
            }, "nobody comes home"


def probes_no_token_that_another_agent_knows(program):
    """The agent that granted a lock goes on counting it after its release elsewhere."""
    with agents(2) as servers:
        events = run(program, servers, "stray=200")
    told = {}
    for event in events:
        if event["op"] != "probe":
            told.setdefault(event["hold"], set()).add(event["agent"])
    spent = [event["hold"] for event in events if event.get("note") == "spent"]
    away = [hold for hold in spent if len(told[hold]) > 1]
    assert len(spent) > 3 and not away, f"{len(away)} of {len(spent)} were at two agents"


def adopts_no_watchdog_to_vanish_from(program):
    """An adoption begins a new max_hold, which PUT cannot name."""
    with agents(1) as (agent,):
        run(program, [agent], "stray=500", vanish=1000)
        assert (
            len(agent.vanishing) > 5 and agent.prolonged == 0
        ), f"{agent.prolonged} times for {len(agent.vanishing)} locks"


def asks_each_agent_for_each_kind(program):
    with agents(3) as servers:
        run(program, servers, "kinds")
        for server in servers:
            kinds = {each[0].split("/")[2] for each in server.asked}
            assert kinds >= {"rw", "two", "shared", "eight"}, kinds


def asks_for_each_kind(program):
    with agents(1) as (agent,):
        agent.holds = {}
        events = run(program, [agent], "kinds")
    contested = {each for each in agent.asked if not each[0].startswith("/locks/solo/")}
    assert contested == {
        *((f"/locks/rw/{key}", *mode) for key in range(3) for mode in ((), ("read",))),
        *((f"/locks/{key}",) for key in ("two/0", "two/1", "shared/0", "shared/1", "eight/0")),
    }, contested
    held = {event["hold"]: event for event in events if event["op"] == "acquire"}
    for event in events:
        if event["op"] in ("read", "write"):
            grant = held[event["hold"]]
            assert all(event.get(name) == grant.get(name) for name in ("mode", "slot", "permits"))
            assert (event["op"] == "read") == (event.get("mode") == "read"), event
    assert {event.get("slot") for event in events if event["key"] == "eight/0"} >= set(range(8))
    looks = [event for event in events if event["op"] == "look"]
    lost = [event for event in looks if event["outcome"] == "fail"]
    assert looks and not lost, f"{len(lost)} of {len(looks)} did not find their hold"


TESTS = [
    asks_for_each_kind,
    asks_each_agent_for_each_kind,
    probes_no_token_that_another_agent_knows,
    adopts_no_watchdog_to_vanish_from,
    strays_only_when_told_to,
    gives_back_what_it_believes_expired,
]


def main():
    passed = failed = 0
    for test in TESTS:
        try:
            test(sys.argv[1])
            passed += 1
        except AssertionError as error:
            failed += 1
            print(f"FAILED {test.__name__}: {error}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
