#!/usr/bin/env python3
"""The benchmark: bench.py [BUILD FOLDER]. README.md beside it describes the measurements.

Rounds over all rows, interleaved; medians over the rounds, ratios within each. A row in which
nothing happened is named, and the exit code is 1.
"""
import argparse
import contextlib
import json
import os
import pathlib
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import time

import program
import report
import stage
from stage import Failure, wait_for

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
AGENT_COMMANDS = {"evalsha", "eval", "subscribe", "unsubscribe", "client", "info", "ping"}
NAIVE_COMMANDS = {"set", "evalsha"}
LARGE = "{locks: 100000}"
LIVEZ_PACE_MS = 5  # beside a load; at rest it asks more rarely, to be no load itself
REST_PACE_MS = 20
REDIS_PY_CALLERS_MAX = 64  # its threads share one lock of Python's

READ_PERCENT = 95  # share of reads among the requests of a read-mostly key, in percent

SECTIONS = ("pairs", "faults", "held", "leased", "idle", "contention")
SECTIONS += ("kinds", "readers", "start", "tls")


def numbers(name, full, quick):
    """A list of whole numbers from the environment, or the default of the form that is run."""
    return [int(word) for word in os.environ.get(name, quick if options.quick else full).split()]


def number(name, full, quick):
    return float(os.environ.get(name, quick if options.quick else full))


class Knobs:
    def __init__(self):
        self.rounds = int(number("ROUNDS", "5", "1"))
        self.seconds = number("SECONDS_EACH", "2", "0.5")
        self.fault_seconds = number("FAULT_SECONDS", "3", "1")
        self.rest_seconds = number("REST", "10", "1")
        self.callers = numbers("CALLERS", "1 16 64 512 1000 4000", "1 16 64 512 1000 4000")
        self.tls_callers = numbers("TLS_CALLERS", "1 16 64", "16")
        self.fault_callers = int(number("FAULT_CALLERS", "64", "64"))
        self.few = int(number("FEW", "16", "16"))
        self.held = numbers("HELD", "0 1000 99000", "0 500 3000")
        self.idle = numbers("IDLE", "1 1000", "1 1000")
        self.contenders = int(number("CONTENDERS", "100", "20"))
        self.hold_ms = number("HOLD_MS", "5", "5")
        self.mixed = int(number("MIXED", "64", "20"))
        self.live = numbers("LIVE", "0 100 1000 10000", "0 100")
        self.pauses = numbers("PAUSES", "0 10 100", "10")
        self.starts = int(number("STARTS", "3", "1"))


class Peers:
    """Third-party clients, if they are wanted and available."""

    def __init__(self, build, wanted):
        self.skipped, self.words = {}, {}
        self.redsync = self.redis_py = None
        if not wanted:
            return
        self.redsync = self.build_redsync(pathlib.Path(build).resolve() / "peers")
        self.redis_py = self.find_redis_py()

    def build_redsync(self, folder):
        if not shutil.which("go"):
            self.skipped["redsync"] = "Go is missing (Debian: golang)"
            return None
        command = ["go", "build", "-buildvcs=false", "-o", str(folder / "redsync"), "."]
        try:
            built = subprocess.run(
                command, cwd=PEERS / "redsync", capture_output=True, text=True, timeout=600
            )
        except subprocess.TimeoutExpired:
            self.skipped["redsync"] = "does not build within 600 s"
            return None
        if built.returncode != 0:
            why = (built.stderr.strip() or "no reason given").splitlines()[-1]
            self.skipped["redsync"] = f"does not build here: {why}"
            return None
        version = subprocess.run(["go", "version"], capture_output=True, text=True).stdout.split()
        needs = (PEERS / "redsync/go.mod").read_text().split()
        self.words[
            "redsync"
        ] = f"redsync {needs[needs.index('github.com/go-redsync/redsync/v4') + 1]}"
        self.words["redsync"] += f", {version[2]}"
        return folder / "redsync"

    def find_redis_py(self):
        for python in sys.executable, "/usr/bin/python3":
            asked = [python, "-c", "import redis; print(redis.__version__)"]
            found = shutil.which(python) and subprocess.run(asked, capture_output=True, text=True)
            if found and found.returncode == 0:
                self.words["redis-py"] = f"redis-py {found.stdout.strip()}"
                return [python, PEERS / "redis_py.py"]
        self.skipped["redis-py"] = "the module redis is missing (Debian: python3-redis)"
        return None


class Bench:
    def __init__(self, theatre, knobs, peers):
        self.stage, self.knobs, self.peers = theatre, knobs, peers
        self.records, self.failures = [], []
        self.round = self.runs = 0

    def seconds(self, callers):
        """A window must be longer than a pair takes if this many callers wait for each other."""
        return self.knobs.seconds * max(1, callers / 1000)

    def prefix(self):
        """A new key for each run, so that no run sees leftovers of another one."""
        self.runs += 1
        return f"run{self.runs}-"

    @contextlib.contextmanager
    def row(self, section, row, who):
        """One measurement: keeps all that is put into the dictionary, and the foreign load."""
        words = {}
        own_s, busy_s = self.stage.own_busy_s(), stage.machine_busy_s()
        began = time.monotonic()
        try:
            yield words
        except (Failure, OSError, ValueError, subprocess.SubprocessError) as why:
            self.failures.append(f"{section}, {row}, {who}, round {self.round}: {why}")
            print(f"DID NOTHING: {self.failures[-1]}", flush=True)
            return
        lasted = time.monotonic() - began
        own_s = self.stage.own_busy_s() - own_s
        foreign = (stage.machine_busy_s() - busy_s - own_s) / lasted
        about = {"section": section, "row": str(row), "who": who, "round": self.round}
        self.records.append({**about, **words, "foreign": max(0.0, foreign)})

    def load(self, agent, callers, seconds, *more):
        """Pairs through HTTP, of the agent or of another server in its place."""
        return self.stage.run(
            *("load", "--port", agent.port, "--callers", callers, "--seconds", seconds),
            *("--prefix", self.prefix(), "--watch", f"agent:{agent.pid}"),
            *self.stage.watch_masters(),
            *more,
        )

    def client(self, program, callers, masters):
        ports = [word for master in masters for word in ("--master", master.port)]
        program = program if isinstance(program, list) else [program]
        return self.stage.run(
            *program,
            *ports,
            *("--callers", callers, "--seconds", self.seconds(callers)),
            *("--prefix", self.prefix()),
            *self.stage.watch_masters(),
        )

    # ---- pairs over callers, beside others ----

    def do_nothing(self, callers, *arguments):
        port = stage.free_port()
        nothing = self.stage.tool("nothing", "--port", port, *arguments)
        nothing.port = port
        try:
            wait_for("the do-nothing agent listens", lambda: answers(nothing))
            return self.load(nothing, callers, self.seconds(callers))
        finally:
            self.stage.end(nothing)

    def contestants(self, agent, callers):
        masters = self.stage.masters
        yield "lockagent", lambda: self.load(agent, callers, self.seconds(callers))
        yield "nothing", lambda: self.do_nothing(callers, "--config", agent.config)
        yield "http", lambda: self.do_nothing(callers)
        yield "bare", lambda: self.client("bare", callers, masters)
        if self.peers.redsync:
            yield "redsync", lambda: self.client(self.peers.redsync, callers, masters)
        if self.peers.redis_py and callers <= REDIS_PY_CALLERS_MAX:
            yield "redis-py", lambda: self.client(self.peers.redis_py, callers, masters[:1])

    def pairs(self):
        """The first one changes from round to round, so a machine that gets slower favours none."""
        agent = self.main
        for callers in self.knobs.callers:
            all_of_them = list(self.contestants(agent, callers))
            first = self.round % len(all_of_them)
            for who, measure in all_of_them[first:] + all_of_them[:first]:
                with self.row("pairs", callers, who) as words:
                    words.update(measure())

    # ---- masters that fail ----

    def faults(self):
        masters = self.stage.masters
        for row, signal, struck in (
            ("none", None, []),
            ("one stopped", "STOP", [0]),
            ("two stopped", "STOP", [0, 1]),
            ("one killed", "KILL", [2]),
            ("two killed", "KILL", [2, 3]),
        ):
            faults = [w for i in struck for w in ("--fault", f"{signal}:{masters[i].pid}")]
            try:
                with self.row("faults", row, "lockagent") as words:
                    seconds = self.knobs.fault_seconds
                    words.update(self.load(self.main, self.knobs.fault_callers, seconds, *faults))
            finally:
                self.stage.heal(self.main)

    # ---- locks that the watchdog renews ----

    def livez(self, agent, seconds, pace_ms, *more):
        return self.stage.run(
            *("load", "--only-http", "--port", agent.port, "--callers", 1, "--seconds", seconds),
            *("--pace", pace_ms, "--warmup", 0, *more),
        )

    def at_rest(self, agent):
        """Measures the share of a core that the agent and each master use, and how soon `/livez` is
        answered.
        """
        names = {"agent": agent.pid} | {f"m{i}": m.pid for i, m in enumerate(self.stage.masters)}
        watches = [word for name in names for word in ("--watch", f"{name}:{names[name]}")]
        said = self.livez(agent, self.knobs.rest_seconds, REST_PACE_MS, *watches)
        core = {n: said["pairs"] * said[f"{n}_cpu_us"] / said["seconds"] / 1e6 for n in names}
        return {
            "agent_core": core.pop("agent"),
            "master_core": statistics.mean(core.values()),
            "livez_rest_p99_us": said["acquire_p99_us"],
        }

    def under_load(self, agent, seconds):
        """A few callers, and `/livez` asked beside them."""
        beside = ["load", "--only-http", "--port", agent.port, "--pace", LIVEZ_PACE_MS]
        beside += ["--seconds", max(0.2, seconds - 0.2), "--warmup", 0.4]
        probe = self.stage.tool(*beside, stdout=subprocess.PIPE)
        try:
            words = self.load(agent, self.knobs.few, seconds)
            said, _ = probe.popen.communicate(timeout=30)
        finally:
            self.stage.end(probe)
        if probe.popen.returncode != 0:
            raise Failure(f"/livez: {probe.said()}")
        return words | {"livez_p99_us": stage.read_words(said)["acquire_p99_us"]}

    def hold(self, agent, count, terms=""):
        hold = self.stage.tool(
            *("hold", "--port", agent.port, "--held", count, "--prefix", f"held-{self.prefix()}"),
            *("--terms", terms),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        said = hold.popen.stdout.readline()
        if not said:
            hold.popen.wait(10)
            raise Failure(hold.said())
        return hold

    def held(self):
        agent = self.stage.ready_agent(LARGE)
        holds, have, rss = [], 0, stage.rss_bytes(agent.pid)
        try:
            for count in self.knobs.held:
                with self.row("held", count, "lockagent") as words:
                    if count > have:
                        holds.append(self.hold(agent, count - have))
                        have = count
                        still_held(agent, have)
                        words["lock_bytes"] = (stage.rss_bytes(agent.pid) - rss) / have
                    words.update(self.at_rest(agent))
                    seconds = max(self.knobs.seconds, self.knobs.rest_seconds)
                    words.update(self.under_load(agent, seconds))
                    still_held(agent, have)
            for hold in holds:
                hold.popen.communicate("release\n", timeout=120)
        finally:
            for hold in holds:
                self.stage.end(hold)
            self.stage.end(agent)

    # ---- locks that are never renewed ----

    def leased(self):
        agent, count = self.stage.ready_agent(LARGE), max(self.knobs.held)
        hold = None
        try:
            with self.row("leased", 0, "lockagent") as words:
                words.update(self.under_load(agent, self.knobs.seconds))
            with self.row("leased", count, "lockagent") as words:
                hold = self.hold(agent, count, "?renew=caller&ttl=60s")
                words.update(self.under_load(agent, self.knobs.seconds))
                still_held(agent, count)
                hold.popen.communicate("release\n", timeout=120)
        finally:
            if hold:
                self.stage.end(hold)
            self.stage.end(agent)

    # ---- connections on which nothing happens ----

    def idle(self):
        agent = self.stage.ready_agent()
        rss = stage.rss_bytes(agent.pid)
        try:
            for count in self.knobs.idle:
                with self.row("idle", count, "lockagent") as words:
                    with self.parked(agent, count) as park:
                        words["connection_bytes"] = (stage.rss_bytes(agent.pid) - rss) / count
                        words.update(self.under_load(agent, self.knobs.seconds))
                        if count == max(self.knobs.idle):
                            words.update(self.waiters(agent, park, count))
                        if not park.lives():
                            raise Failure(park.said())
        finally:
            self.stage.end(agent)

    @contextlib.contextmanager
    def parked(self, agent, count):
        """Connections that have had an answer each."""
        park = self.stage.tool(
            *("park", "--port", agent.port, "--callers", count, "--prefix", "parked-"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            if not park.popen.stdout.readline():
                park.popen.wait(10)
                raise Failure(park.said())
            yield park
        finally:
            self.stage.end(park)

    def waiters(self, agent, park, count):
        """Each waits for a key of its own that is never released."""
        for master in self.stage.masters:
            lines = "".join(f"SET lock:parked-{i} somebody PX 600000\r\n" for i in range(count))
            command = ["redis-cli", "-p", str(master.port), "--pipe"]
            subprocess.run(command, input=lines, text=True, capture_output=True, check=True)
        rss = stage.rss_bytes(agent.pid)
        park.popen.stdin.write("wait\n")
        park.popen.stdin.flush()
        wait_for("all wait", lambda: agent.metric("lockagent_waiters ") == count)
        time.sleep(min(2, self.knobs.rest_seconds))
        for master in self.stage.masters:
            master.ask("CONFIG RESETSTAT")
        words = {"waiter_bytes": (stage.rss_bytes(agent.pid) - rss) / count}
        spent_s, began = stage.cpu_s(agent.pid), time.monotonic()
        time.sleep(self.knobs.rest_seconds)
        lasted = time.monotonic() - began
        words["waiters_core"] = (stage.cpu_s(agent.pid) - spent_s) / lasted
        sent = sum(master.commands(AGENT_COMMANDS) for master in self.stage.masters)
        words["waiters_commands_per_s"] = sent / lasted
        if agent.metric("lockagent_waiters ") != count:
            raise Failure(f"not all of the {count} wait any more")
        return words

    # ---- one key for all ----

    def compete(self, callers, hold_ms, policy, names, program, *arguments):
        """For a key of the policy; `names` are the commands that are counted."""
        for master in self.stage.masters:
            master.ask("CONFIG RESETSTAT")
        warmup = 0.3 + 1.5 * callers * hold_ms / 1000
        words = self.stage.run(
            *(program, *arguments, "--hold", hold_ms, "--callers", callers),
            *("--prefix", policy + self.prefix(), "--seconds", self.knobs.seconds),
            *("--warmup", warmup),
        )
        sent = sum(master.commands(names) for master in self.stage.masters)
        return words | {"commands": sent / words["all_grants"]}

    def contest(self, who, hold_ms, names, program, *arguments):
        policy = "fair-" if "fair" in who else ""
        with self.row("contention", f"{hold_ms:g}", who) as words:
            callers = self.knobs.contenders
            words.update(self.compete(callers, hold_ms, policy, names, program, *arguments))

    def contention(self):
        ports = [word for agent in self.agents for word in ("--port", agent.port)]
        masters = [word for master in self.stage.masters for word in ("--master", master.port)]
        for hold_ms in (self.knobs.hold_ms, 0):
            self.contest("one agent", hold_ms, AGENT_COMMANDS, "contend", *ports[:2])
            self.contest("three agents", hold_ms, AGENT_COMMANDS, "contend", *ports)
            self.contest("three agents, fair", hold_ms, AGENT_COMMANDS, "contend", *ports)
        for pause in self.knobs.pauses:
            for who, some in (("SET NX", masters[:2]), ("Redlock", masters)):
                who = f"{who}, {pause} ms" if pause else f"{who}, no pause"
                arguments = ["naive", *some, "--pause", pause]
                self.contest(who, self.knobs.hold_ms, NAIVE_COMMANDS, *arguments)

    # ---- one key of a kind that has several holders ----

    def kinds(self):
        """Each beside a mutex for as many callers, with the same hold."""
        ports = [word for agent in self.agents for word in ("--port", agent.port)]
        reads, permits = ("--reads", READ_PERCENT), ("--permits", stage.PERMITS)
        for callers, policy, options_of_kind in (
            (self.knobs.mixed, "read-mostly", reads),
            (self.knobs.contenders, "permits", permits),
        ):
            contests = (
                ("mutex", "", ports[:2]),
                (policy, f"{policy}-", [*ports[:2], *options_of_kind]),
                (f"{policy}, three agents", f"{policy}-", [*ports, *options_of_kind]),
            )
            for who, prefix, arguments in contests:
                with self.row("kinds", callers, who) as words:
                    terms = callers, self.knobs.hold_ms, prefix, AGENT_COMMANDS
                    words.update(self.compete(*terms, "contend", *arguments))
                    words["grants_per_permit_s"] = words["grants_per_s"] / stage.PERMITS

    # ---- the cost of a read for a master beside others ----

    def readers(self):
        master = self.stage.masters[0]
        for live in self.knobs.live:
            for who, more in (("read", []), ("read and release", ["--give-back"])):
                key = self.prefix()
                with self.row("readers", live, who) as words:
                    words.update(
                        self.stage.run(
                            *("readers", "--master", master.port, "--config", self.main.config),
                            *("--live", live, "--key", key, "--seconds", self.knobs.seconds),
                            *more,
                        )
                    )
                master.ask(f"DEL lock:{key}")

    # ---- the start of an agent ----

    def start(self):
        for _ in range(self.knobs.starts):
            with self.row("start", "first lock", "lockagent") as words:
                agent = self.stage.agent(at_once=True)
                words["first_lock_ms"] = 1000 * agent.first_lock_s()
                wait_for("the agent sees all masters", agent.sees_all)
                words["rss_bytes"] = stage.rss_bytes(agent.pid)
                self.stage.end(agent)

    # ---- TLS to the masters ----

    def tls(self):
        """Two agents over the same masters, in turns: in the clear, and over TLS."""
        over_tls = self.stage.ready_agent_over_tls()
        agents = [("lockagent", self.main), ("over TLS", over_tls)]
        for callers in self.knobs.tls_callers:
            for who, agent in agents if self.round % 2 else agents[::-1]:
                with self.row("tls", callers, who) as words:
                    words.update(self.load(agent, callers, self.seconds(callers)))
        self.stage.end(over_tls)

    def run(self, sections):
        self.stage.start_masters()
        self.agents = [self.stage.ready_agent() for _ in range(3)]
        self.main = self.agents[0]
        for self.round in range(1, self.knobs.rounds + 1):
            for section in sections:
                try:
                    getattr(self, section)()
                except (Failure, OSError, subprocess.SubprocessError) as why:
                    self.failures.append(f"{section}, round {self.round}: {why}")
                    print(f"DID NOTHING: {self.failures[-1]}", flush=True)
            print(f"round {self.round} of {self.knobs.rounds} done", flush=True)


def still_held(agent, count):
    """None may have been lost on the way: an agent that renews fewer locks costs less. The agent's
    page of metrics may be a moment old."""
    what = f"the agent has all of the {count} locks that it granted"
    wait_for(what, lambda: agent.metric("lockagent_locks_held") >= count, 3)


def answers(process):
    if not process.lives():
        raise Failure(process.said())
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", process.port)):
        return True
    return False


def machine():
    models = [
        line.partition(": ")[2]
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    version = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    redis = next((w[2:] for w in version.split() if w.startswith("v=")), "of unknown version")
    model = models[0] if models else platform.machine()
    return f"{os.cpu_count()} cores ({model}), Redis {redis}"


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?", default="build-bench")
    parser.add_argument("--quick", action="store_true", help="one short round: does it all work?")
    parser.add_argument("--only", default=" ".join(SECTIONS), help="some of: %(default)s")
    parser.add_argument("--write", action="store_true", help="the result into docs/performance.md")
    parser.add_argument("--again", action="store_true", help="report on the last run, without one")
    return parser.parse_args()


def measure(kept):
    sections = options.only.split()
    if unknown := set(sections) - set(SECTIONS):
        raise Failure(f"no such rows: {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    knobs, peers = Knobs(), Peers(options.build, "pairs" in sections)
    for name, why in peers.skipped.items():
        print(f"skipped: {name}: {why}", flush=True)
    appendonly = os.environ.get("APPENDONLY", "no")
    with stage.Stage(options.build, os.environ.get("AGENT"), appendonly) as theatre:
        bench = Bench(theatre, knobs, peers)
        bench.run(sections)
    about = {
        "machine": machine(),
        "sources": program.sources(),
        "appendonly": appendonly,
        "quick": options.quick,
        "skipped": peers.skipped,
        "peers": peers.words,
        **vars(knobs),
    }
    result = {"about": about, "records": bench.records, "failures": bench.failures}
    kept.write_text(json.dumps(result, indent=1))
    return result


def main():
    kept = pathlib.Path(options.build) / "bench.json"
    try:
        result = json.loads(kept.read_text()) if options.again else measure(kept)
    except Failure as why:
        sys.exit(f"bench: {why}")
    print(report.markdown(result))
    if result["failures"]:
        sys.exit("bench: DID NOTHING:\n  " + "\n  ".join(result["failures"]))
    if options.write:
        report.write(stage.TOP, result)


options = None  # of the command line

if __name__ == "__main__":
    options = parse_options()
    main()
