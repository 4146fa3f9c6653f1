"""A rolling upgrade and the way back: agents of an older build are restarted one by one as agents
of this build, under load, and then one by one as agents of the older build again.

The older build is made from this repository's history, into the build folder, once for each
commit. Besides the checker's properties these are held:

  - A lock that was taken before its agent's restart is still its holder's afterwards, with its
    number. After a kill, and after a second SIGTERM, the restarted agent knows it from its journal,
    or says in its log that it does not read that.
  - No other agent, of any build, grants the lock meanwhile, and a caller that waits for it there is
    granted it after its release, with a larger number.
  - Agents of both builds adopt and release each other's locks, and keep one line (order: fair).
  - After each restart every agent goes on granting to callers that wait.

Nothing here is timed: each step waits for its events, and fails after PATIENT_S without them."""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import means
from means import MASTERS, TTL_MS, Failure, Skipped
from world import World

# The build from which agents are upgraded: the tag of the last release, as soon as there is one.
# Until then, and after a release that raises the wire number, the first commit with that number.
OLDER = "daecf08f3309d9ec343c4be5eb23ea0a0a37ca68"

FLEET = 6
KEPT_TTL_MS = 30000  # so much longer than a restart that a busy machine loses no hold
PATIENT_S = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]
UNUSED = ("journal was not used and was begun anew", "holds in the journal were refused")


class Kind:
    """A kind of lock that is held over restarts. `held` and `wanted` are the parameters of the one
    that holds it and of one that waits for it, so many hold it, and so many wait, each at an agent
    of its own."""

    def __init__(self, name, policy, held="", wanted="", holders=1, waiters=1):
        self.name, self.policy, self.held, self.wanted = name, policy, held, wanted
        self.holders, self.waiters = holders, waiters


MUTEX = Kind("mutex", "")
KINDS = [
    MUTEX,
    Kind("fair", "order: fair", waiters=2),
    Kind("redisson", "format: redisson"),
    Kind("writer", "kind: rw", wanted="&mode=read"),
    Kind("reader", "kind: rw", held="&mode=read"),
    Kind("permits", "permits: 2", holders=2),
]
# keys of the callers of each kind, and whose holder reads
HEARD = [("rw", "read"), ("rw", "write"), ("two", None), ("eight", None), ("shared", None)]


def eventually(condition):
    return means.eventually(condition, PATIENT_S)


# ---- the older build


def git(*words):
    command = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, check=False)


def older_agent(build):
    """Returns the path of its program, which is built if that has not been done yet."""
    if shutil.which("git") is None:
        raise Skipped(f"the older build {OLDER} cannot be made: git is not installed")
    named = git("rev-parse", "--verify", "--quiet", f"{OLDER}^{{commit}}")
    if named.returncode != 0:
        why = named.stderr.decode().strip() or "this clone's history does not reach back to it"
        raise Skipped(f"the older build {OLDER} cannot be made: {why}")
    commit = named.stdout.decode().strip()
    program = pathlib.Path(build) / "tests/faults/older" / commit / "lockagent"
    if not program.exists():
        print(f"       building the agent of {OLDER}", flush=True)
        with tempfile.TemporaryDirectory(prefix="lockagent-older-") as folder:
            build_agent(commit, folder)
            program.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(f"{folder}/build/lockagent", f"{program}.{os.getpid()}")
            os.rename(f"{program}.{os.getpid()}", program)
    return str(program)


def build_agent(commit, folder):
    tree = git("archive", commit)
    if tree.returncode != 0:
        raise Failure(f"git archive {commit}: {tree.stderr.decode()}")
    os.mkdir(f"{folder}/tree")
    for command, stdin in (
        (["tar", "-x", "-C", f"{folder}/tree"], tree.stdout),
        (["meson", "setup", "-Dtests=false", f"{folder}/build", f"{folder}/tree"], b""),
        (["ninja", "-C", f"{folder}/build", "lockagent"], b""),
    ):
        done = subprocess.run(
            command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode != 0:
            raise Failure(f"{' '.join(command)}:\n{done.stdout.decode()[-2000:]}")


# ---- the stage


class Fleet(World):
    """Six agents with journals. Those of `upgraded` are of this build, the others of the older
    one."""

    longest_ttl_ms, soloists = KEPT_TTL_MS, 2
    # so long that a second SIGTERM comes before the end that the first one began
    grace = "1s"

    def __init__(self, build, seed, **more):
        self.older, self.upgraded, self.configured = older_agent(build), set(), {}
        super().__init__(build, seed, agents=FLEET, journal=True, kinds=True, **more)

    def program_of(self, agent):
        return f"{self.build}/lockagent" if agent in self.upgraded else self.older

    def configure(self, agent, masters, limits):
        self.configured[agent] = (masters, limits)
        super().configure(agent, masters, limits)

    def policies(self, agent):
        ttl = f"prefix: '{self.prefixes[agent]}', ttl: {KEPT_TTL_MS}ms, retry: {self.retry}"
        kept = [
            f"{{match: 'kept/{kind.name}/*', {ttl}{kind.policy and ', ' + kind.policy}}}"
            for kind in KINDS
        ]
        in_line = f"prefix: '{self.prefixes[agent]}', ttl: {TTL_MS}ms, order: fair"
        return [*kept, f"{{match: 'shared/0', {in_line}}}", *super().policies(agent)]

    def build_of(self, agent):
        return "this build" if agent in self.upgraded else "the older build"

    def insist(self, agent, method, path, token, wanted):
        """Repeats a call for as long as too few masters answer in time. Returns the answer."""
        told = []

        def is_told():
            told.append(self.ask(agent, method, path, token, patience_s=PATIENT_S))
            return told[-1][0] not in (None, 429, 503)

        eventually(is_told)
        status, answer = told[-1]
        # an earlier DELETE has worked, or will
        done = method == "DELETE" and (
            status == 202 or (len(told) > 1 and status in (404, 410, 412))
        )
        if status is None:
            ended = self.processes[f"agent{agent}"].poll()
            answer = f"{len(told)} times; ended with {ended}:\n{self.log(f'agent{agent}')}"
        if status != wanted and not done:
            raise Failure(
                f"agent {agent} of {self.build_of(agent)} answers {method} {path} with "
                f"{status} and not {wanted}: {answer}"
            )
        return answer

    def end(self, agent, way):
        """Returns whether holds are left in the journal for the agent that is started next."""
        name = f"agent{agent}"
        process = self.processes[name]
        if way == "SIGKILL":
            self.kill(name)
            return True
        process.terminate()
        if way == "SIGTERM twice":
            eventually(lambda: process.poll() is not None or not self.is_ready(agent))
            process.terminate()
        if not eventually(lambda: process.poll() is not None):
            raise Failure(f"agent {agent} does not end:\n{self.log(name)}")
        self.kill(name)
        if process.returncode not in (0, 143, -15):
            raise Failure(f"agent {agent} ended with {process.returncode}:\n{self.log(name)}")
        return process.returncode != 0

    def restart(self, agent, way):
        """As an agent of the other build. Returns the result of end(), and the lines of log in
        which the new agent says that it does not read the journal."""
        is_kept = self.end(agent, way)
        at = os.path.getsize(self.path(f"agent{agent}.log"))
        self.upgraded ^= {agent}
        self.configure(agent, *self.configured[agent])
        self.launch_agent(agent)
        self.await_agent(agent)
        with open(self.path(f"agent{agent}.log"), encoding="utf-8", errors="replace") as log:
            log.seek(at)
            unread = [line.strip() for line in log if any(each in line for each in UNUSED)]
        return is_kept, unread


class Ear:
    """Reads the grants in the history from now on."""

    def __init__(self, world):
        self.world, self.at = world, os.path.getsize(world.history)
        self.granted, self.waited = set(), set()

    def listen(self):
        with open(self.world.history, "rb") as history:
            history.seek(self.at)
            lines = history.read().split(b"\n")[:-1]
        self.at += sum(len(line) + 1 for line in lines)
        for line in lines:
            if b'"op":"acquire"' in line and b'"outcome":"ok"' in line:
                event = json.loads(line)
                self.granted.add((event["agent"], event["key"].split("/")[0], event.get("mode")))
                if event.get("wait_ms") and event.get("note") != "solo":
                    self.waited.add(event["agent"])
        return self


def expect_service(world, state):
    """Every agent grants contested keys to callers that are ready to wait for them."""
    ear = Ear(world)
    if not eventually(lambda: len(ear.listen().waited) == FLEET):
        left = sorted(set(range(FLEET)) - ear.waited)
        raise Failure(f"{state}: of callers that wait none is served by agent {left}")


def expect_all_kinds(world, state):
    """Every agent grants locks of each kind."""
    ear, wanted = Ear(world), {(agent, *each) for agent in range(FLEET) for each in HEARD}
    if not eventually(lambda: wanted <= ear.listen().granted):
        left = ", ".join(f"{each} of agent {each[0]}" for each in sorted(wanted - ear.granted))
        raise Failure(f"{state}: nothing is granted of {left}")


# ---- locks that are held over restarts


class Waiter(threading.Thread):
    """A caller that waits for a lock until it has it."""

    def __init__(self, world, agent, key, parameters):
        super().__init__(daemon=True)
        self.world, self.agent, self.status, self.answer = world, agent, 503, {}
        self.path = f"/locks/{key}?wait=300s{parameters}"
        self.start()

    def run(self):
        while self.status in (429, 503):
            self.status, self.answer = self.world.ask(self.agent, "POST", self.path, patience_s=400)


class Relay:
    """A lock that `agent` grants before its restart, and that waiters of other agents get after its
    release."""

    def __init__(self, world, kind, number, agent):
        self.world, self.kind, self.agent = world, kind, agent
        self.key = f"kept/{kind.name}/{number}"
        self.others = others_of(world, agent)
        self.holds = [take(world, agent, self.key, kind.held) for _ in range(kind.holders)]
        self.waiters, self.first_ticket = [], None
        for each in self.others[: kind.waiters]:
            self.waiters.append(Waiter(world, each, self.key, kind.wanted))
            if kind.waiters > 1:
                self.await_tickets(len(self.waiters))

    def tickets(self):
        """Of each master those of agents with waiters for the key: (agent, number) -> until when,
        in ms of the wall clock."""
        all_of_it = "local key = redis.call('KEYS', ARGV[1])[1] "
        all_of_it += "return key and redis.call('HGETALL', key) or {}"
        found = []
        for master in range(MASTERS):
            name = f"lockagent:ticket:*{self.key}"
            told = self.world.ask_master(master, "EVAL", all_of_it, "0", name) or []
            pairs = [(agent, text.split(":")) for agent, text in zip(told[::2], told[1::2])]
            found.append({(agent, number): int(until) for agent, (number, until) in pairs})
        return found

    def await_tickets(self, count):
        """Returns when most masters have tickets of so many agents."""
        seen = collections.Counter()

        def are_there():
            found = self.tickets()
            seen.update(ticket for each in found for ticket in each)
            return sum(len(each) >= count for each in found) > MASTERS // 2

        if not eventually(are_there):
            raise Failure(f"{self.key}: {count} agents wait, and masters have {self.tickets()}")
        if self.first_ticket is None:
            self.first_ticket = seen.most_common(1)[0][0]

    def first_until_ms(self):
        """Until when most masters keep the ticket that the first waiter's agent had before the
        second one came; 0: they do not have it any more."""
        if self.first_ticket is None:
            return 0
        return sorted(each.get(self.first_ticket, 0) for each in self.tickets())[MASTERS // 2]

    def go_on(self, is_kept, unread):
        """After the restart: the lock is still held, and released then."""
        world, agent = self.world, self.agent
        for hold in self.holds:
            answer = renew(world, agent, self.key, hold)
            if is_kept and "adopted" in answer and not unread:
                raise Failure(
                    f"agent {agent} of {world.build_of(agent)} has forgotten {self.key}, "
                    "and says nothing of its journal"
                )
        early = [each for each in self.waiters if not each.is_alive()]
        if early:
            raise Failure(
                f"agent {early[0].agent} of {world.build_of(early[0].agent)} has answered for "
                f"{self.key}, which is held: {early[0].status} {early[0].answer}"
            )
        first_until_ms = self.first_until_ms()
        world.insist(agent, "DELETE", f"/locks/{self.key}", self.holds[0]["token"], 204)
        number = self.holds[0]["fencing_token"]
        for turn in range(len(self.waiters)):
            number = self.pass_on(number, first_until_ms if turn == 0 else 0)
        for hold in self.holds[1:]:
            world.insist(agent, "DELETE", f"/locks/{self.key}", hold["token"], 204)

    def pass_on(self, number, first_until_ms):
        """A waiter is granted the lock, with a larger number, and releases it. Until then it is the
        first one."""
        world, path = self.world, f"/locks/{self.key}"
        if not eventually(lambda: any(not each.is_alive() for each in self.waiters)):
            agents = [f"{each.agent} of {world.build_of(each.agent)}" for each in self.waiters]
            raise Failure(f"{self.key} is free, and not granted by agent {', '.join(agents)}")
        waiter = next(each for each in self.waiters if not each.is_alive())
        is_first = waiter is self.waiters[0]
        who = f"agent {waiter.agent} of {world.build_of(waiter.agent)}"
        if waiter.status != 201:
            raise Failure(f"{who} does not grant {self.key}: {waiter.status} {waiter.answer}")
        if not is_first and time.time() * 1000 < first_until_ms:
            raise Failure(f"{who} grants {self.key} before agent {self.waiters[0].agent} does")
        self.waiters.remove(waiter)
        hold = waiter.answer
        reads = self.kind.wanted == "&mode=read"
        if hold["fencing_token"] < number + (not reads):
            raise Failure(f"{who} numbers {self.key} {hold['fencing_token']} after {number}")
        if self.kind.waiters == 1:
            renew(world, self.others[1], self.key, hold)
            world.insist(self.others[2], "DELETE", path, hold["token"], 204)
        else:
            world.insist(waiter.agent, "DELETE", path, hold["token"], 204)
        return hold["fencing_token"]


def others_of(world, agent):
    """All but that one by chance, but the first two are of different builds if there are such."""
    others = [each for each in range(FLEET) if each != agent]
    world.random.shuffle(others)
    first = others[0]
    apart = [each for each in others if (each in world.upgraded) != (first in world.upgraded)]
    second = (apart or others[1:])[0]
    return [first, second] + [each for each in others if each not in (first, second)]


def take(world, agent, key, parameters=""):
    """A watchdog's lock, which its holder has been told of."""
    path = f"/locks/{key}?wait=10s{parameters}"
    hold = world.insist(agent, "POST", path, None, 201)
    # Killed before it has marked the answer as written, the agent would not renew the hold.
    renew(world, agent, key, hold)
    return hold


def renew(world, agent, key, hold):
    """The agent adopts it if it does not know it. Its number stays, and no other caller has had it
    in between."""
    answer = world.insist(agent, "PUT", f"/locks/{key}?renew=agent", hold["token"], 200)
    shared = key.startswith("kept/redisson/")
    if answer["fencing_token"] != hold["fencing_token"]:
        raise Failure(f"agent {agent} renews {key} with another number: {answer}")
    if answer.get("continuous", True) is not True and not shared:
        raise Failure(f"agent {agent} does not know whether {key} was always held: {answer}")
    return answer


# ---- the upgrade


def order_of(world):
    """(agent, way) of six restarts."""
    agents, ways = list(range(FLEET)), ["SIGTERM"] * 3 + ["SIGTERM twice"] * 2 + ["SIGKILL"]
    world.random.shuffle(agents)
    world.random.shuffle(ways)
    return zip(agents, ways, strict=True)


def roll(world):
    """There and back. Some locks go with the upgrade, from each agent that was restarted to the
    next."""
    going = {kind: take(world, 0, f"kept/{kind.name}/long", kind.held) for kind in KINDS}
    numbers = iter(range(2 * FLEET))
    expect_all_kinds(world, "all agents are of the older build")
    for state in ("all agents are of this build", "all agents are of the older build again"):
        for agent, way in order_of(world):
            step(world, next(numbers), agent, way, going)
        expect_all_kinds(world, state)
    for kind, hold in going.items():
        world.insist(agent, "DELETE", f"/locks/kept/{kind.name}/long", hold["token"], 204)


def step(world, number, agent, way, going):
    relays = [Relay(world, kind, number, agent) for kind in KINDS]
    is_kept, unread = world.restart(agent, way)
    for relay in relays:
        relay.go_on(is_kept, unread)
    for kind, hold in going.items():
        key = f"kept/{kind.name}/long"
        renew(world, agent, key, hold)
        stranger = others_of(world, agent)[0]
        if kind.holders == 1:
            world.insist(stranger, "POST", f"/locks/{key}?wait=0s{kind.wanted}", None, 409)
    expect_service(world, f"agent {agent} is of {world.build_of(agent)}")
