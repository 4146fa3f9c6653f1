"""The stage of the hazards: the masters, the proxy and the agents of the fault suite, without its
load. The clients are steps of one process, so each schedule is played exactly as it is written.

A row is a Hazard: a schedule with a recipe that people use, and the same one with lockagent."""
import contextlib
import http.client
import json
import pathlib
import re
import select
import socket
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/faults"))
from means import AGENTS, MASTERS, PATIENCE_S, eventually
from world import World

LEASE_MS = 300  # of most recipes; expiries are all that is waited for
SHORT_MS = 1000  # of a lock that is to run out at an agent: four times the world's node_timeout
LONG_MS = 10000  # of a lock that must not end by itself
REFUSED = (409, 503)  # held by another one, or too few votes
RELEASED = (202, 204)  # 202: a master was late, and is asked again
TRIES = 5  # of a round for which a busy machine's masters may be late
SOON_S = LONG_MS / 1000 - 2  # a caller that is granted within this did not wait for a LONG_MS lease


def bucket_of(key, prefix="lock:"):
    """The key of the bucket in which masters keep the fencing number of a key (R12)."""
    number = 0xCBF29CE484222325  # FNV-1a
    for byte in (prefix + key).encode():
        number = (number ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"lockagent:number:{prefix}{(number ^ number >> 32) % 16384}"


class Unseen(Exception):
    """An expected sight did not come."""


def see(what, is_so):
    if not is_so:
        raise Unseen(what)


def await_sight(what, condition):
    """Like see(), for a sight that comes by itself, sooner or later."""
    see(what, eventually(condition))


def is_readable(connection, within_s):
    return bool(select.select([connection], [], [], within_s)[0])


def pause_ms(milliseconds):
    time.sleep(milliseconds / 1000)


class Refused(Exception):
    """An error reply."""


class Redis:
    """One client's connection to a redis-server. Command and reply are separate steps."""

    def __init__(self, path, timeout_s=PATIENCE_S):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout_s)
        self.socket.connect(path)
        self.replies = self.socket.makefile("rb")

    def send(self, *words):
        self.socket.sendall(command(*words))

    def reply(self):
        line = self.replies.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("no reply")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise Refused(rest)
        if kind == b"+":
            return rest
        count = int(rest)
        if kind == b":" or count < 0:
            return count if kind == b":" else None
        if kind == b"*":
            return [self.reply() for _ in range(count)]
        return self.replies.read(count + 2)[:-2].decode()

    def __call__(self, *words):
        self.send(*words)
        return self.reply()

    def is_answered(self, within_s=0.0):
        return is_readable(self.socket, within_s)

    def close(self):
        self.replies.close()
        self.socket.close()


def command(*words):
    """As it goes over the wire."""
    texts = [str(word) for word in words]
    return "".join(
        [f"*{len(texts)}\r\n", *(f"${len(text.encode())}\r\n{text}\r\n" for text in texts)]
    ).encode()


class Caller:
    """One caller's connection to an agent. Request and answer are separate steps."""

    def __init__(self, port):
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=4 * PATIENCE_S)
        self.http.connect()
        self.token, self.fence, self.answer, self.stream = None, 0, {}, None

    def send(self, method, key, headers=(), **parameters):
        words = "&".join(f"{name}={value}" for name, value in parameters.items())
        headers = {"Lock-Token": self.token, **dict(headers)} if self.token else dict(headers)
        self.http.request(method, f"/locks/{key}?{words}", headers=headers)

    def status(self):
        """Of the answer; its fields are `self.answer` then."""
        response = self.http.getresponse()
        self.hear(response.read())
        return response.status

    def hear(self, text):
        """The token and the number of a grant are kept."""
        self.answer = json.loads(text) if text else {}
        self.token = self.answer.get("token", self.token)
        self.fence = self.answer.get("fencing_token", self.fence)

    def open_stream(self):
        """The status of a bound acquire, whose answer does not end."""
        self.stream = self.http.getresponse()
        self.hear(self.stream.readline())
        return self.stream.status

    def line(self):
        return json.loads(self.stream.readline())

    def is_answered(self, within_s=0.0):
        return is_readable(self.http.sock, within_s)

    def post(self, key, **parameters):
        self.send("POST", key, **parameters)
        return self.status()

    def put(self, key, **parameters):
        self.send("PUT", key, **parameters)
        return self.status()

    def delete(self, key):
        self.send("DELETE", key)
        return self.status()

    def decided(self, method, key, **parameters):
        """The status of a request that is sent again while too few masters answer it in time."""
        for _ in range(TRIES):
            self.send(method, key, **parameters)
            status = self.status()
            if status != 503:
                break
        return status

    def state(self, key):
        self.send("GET", key)
        self.status()
        return self.answer.get("state")

    def vanish(self):
        self.http.close()


class Stage(World):
    """`bare`: there are no agents. `ahead`: agents whose wall clock is a minute ahead. `trusted`:
    the masters' first guard, which those that are not durable have, is ended by hand. `patient`: no
    round fails because an agent or a master stops for a second. The other arguments are the
    world's."""

    def __init__(
        self,
        build,
        bare=False,
        ahead=(),
        trusted=False,
        patient=False,
        retry=World.retry,
        **world,
    ):
        self.bare, self.ahead, self.trusted, self.open_ends = bare, ahead, trusted, []
        self.patient, self.retry = patient, retry
        world = {"limits": {"max_ttl": f"{LONG_MS}ms"}, **world}
        super().__init__(build, seed=1, **world)

    def launch_agents(self, limits):
        if not self.bare:
            super().launch_agents(limits)
            known = 1 if self.replicas else MASTERS
            for agent in range(AGENTS):
                await_sight("all masters vote", lambda agent=agent: self.voting(agent) == known)

    def await_agent(self, agent):
        if self.trusted and agent == 0:
            trust = [f"{self.build}/lockagent", "trust", self.path("agent0.yaml")]
            trusted = subprocess.run(trust, stdout=subprocess.DEVNULL, check=False)
            see("the masters are trusted", trusted.returncode == 0)
        super().await_agent(agent)

    def launch_callers(self, seed, vanish_permille):
        """The clients are steps of this process."""

    def policies(self, agent):
        policies = super().policies(agent)
        if self.patient:  # a ttl is at least four times the node_timeout
            policies = [re.sub(r"\bttl: \w+", f"ttl: {LONG_MS}ms", each) for each in policies]
        return policies

    def environment_of(self, agent):
        if self.patient:
            return {"LOCKAGENT_REDIS_GROUPS_MAIN_NODE_TIMEOUT": "2s"}
        if agent not in self.ahead:
            return super().environment_of(agent)
        with open(self.path(f"clock-agent{agent}"), "wb") as clock:
            clock.write((60000).to_bytes(8, "little"))
        return self.clock(f"clock-agent{agent}")

    def close(self):
        for each in self.open_ends:
            with contextlib.suppress(OSError):
                each.close()
        super().close()

    # ---- clients

    def redis(self, master=0, **more):
        client = Redis(self.socket(master), **more)
        self.open_ends.append(client)
        return client

    def caller(self, agent=0):
        caller = Caller(self.ports[agent])
        self.open_ends.append(caller.http)
        return caller

    def holder(self, key, agent=0, ttl_ms=LONG_MS, **more):
        """A caller that gets the lock before any lease of LONG_MS can have run out."""
        caller = self.caller(agent)
        status = caller.post(key, ttl=f"{ttl_ms}ms", wait=f"{SOON_S:.0f}s", **more)
        see(f"{key} is granted: {status} {caller.answer}", status == 201)
        return caller

    # ---- reports of agents about masters

    def voting(self, agent):
        return self.metric(agent, 'lockagent_group_masters_voting{group="main"}')

    def guarded(self, agent):
        """How many have no vote because they may have forgotten."""
        lines = str(self.ask(agent, "GET", "/metrics")[1]).splitlines()
        guards = [line for line in lines if line.startswith("lockagent_master_guarded_seconds{")]
        return sum(float(line.split()[-1]) > 0 for line in guards)

    # ---- replies of masters

    def ask_all(self, *words, masters=range(MASTERS)):
        replies = []
        for master in masters:
            with contextlib.closing(Redis(self.socket(master))) as client:
                replies.append(client(*words))
        return replies

    def await_expiry(self, client, key):
        await_sight(f"{key} expires", lambda: not client("EXISTS", key))

    def watch_commands(self, master=0):
        """Returns a function. It waits until the master has been sent a command with these words in
        it, and returns that command's words."""
        monitor = self.redis(master)
        see("MONITOR is accepted", monitor("MONITOR") == "OK")

        def await_command(*words):
            while True:
                told = monitor.reply()
                if " lua]" not in told and all(word in told for word in words):
                    return [word.strip('"') for word in told.split("] ", 1)[1].split(" ")]

        return await_command


class Hazard:
    """One row: `flaw` goes wrong with `system`, and lockagent does `here`; both are seen, or the
    row fails. `apart`: the recipe harms masters, and lockagent gets new ones. `world`: of the
    stage. `shared`: lockagent's half is played once more with locks that are shared with Redisson
    (R22). `figures`: measured values that are not judged."""

    system = flaw = here = ""
    apart = shared = False
    world = {}

    def __init__(self):
        self.figures = []

    def on_redis(self, stage):
        raise NotImplementedError

    def on_lockagent(self, stage):
        raise NotImplementedError

    @classmethod
    def name(cls):
        return f"{cls.system}: {cls.flaw}"

    def play(self, build):
        """Raises Unseen, naming the half in which something was not seen."""
        with contextlib.closing(Stage(build, bare=self.apart, **self.world)) as stage:
            self.half("on Redis the flaw does not show", self.on_redis, stage)
            if not self.apart:
                self.half("lockagent", self.on_lockagent, stage)
        if self.apart:
            with contextlib.closing(Stage(build, **self.world)) as stage:
                self.half("lockagent", self.on_lockagent, stage)
        if self.shared:
            world = {**self.world, "policy": "format: redisson"}
            with contextlib.closing(Stage(build, **world)) as stage:
                self.half("lockagent, format redisson", self.on_lockagent, stage)

    @staticmethod
    def half(name, step, stage):
        try:
            step(stage)
        except Unseen as unseen:
            raise Unseen(f"{name}: not seen: {unseen}") from None
        except (OSError, LookupError, ValueError, http.client.HTTPException, Refused) as broken:
            raise Unseen(f"{name}: {type(broken).__name__}: {broken}") from broken
