"""Other clients that lock the same keys: the real ones if they are available, otherwise their
commands, written again from their published sources.

A client has `masters`, how many of the stage's it locks on (of the first on), and `validity`:
whether it tells its caller for how long a lock is valid. lock() returns that time in ms (0 if the
client tells none), or None when it is refused; unlock() whether the client says that it had the
lock."""
import pathlib
import random
import shutil
import string
import subprocess
import time

from stage import MASTERS, TOP, Refused

try:
    import redis as redis_py
except ImportError:
    redis_py = None

PEERS = TOP / "tests/bench/peers"


class Missing(Exception):
    """A client that is not to be had here; neither passed nor failed."""


class RedisPy:
    """The Lock of redis-py itself. It knows one master."""

    name, masters, validity = "redis-py `Lock`", 1, False

    def __init__(self, stage, _):
        if redis_py is None:
            raise Missing("the module redis is missing (Debian: python3-redis)")
        self.client = redis_py.Redis(unix_socket_path=stage.socket(0))
        self.held = {}

    def lock(self, key, ttl_ms):
        lock = self.client.lock(key, timeout=ttl_ms / 1000)
        if not lock.acquire(blocking=False):
            return None
        self.held[key] = lock
        return 0

    def unlock(self, key):
        try:
            self.held[key].release()
        except redis_py.exceptions.LockError:
            return False
        return True

    def close(self):
        self.client.close()


class Redsync:
    """Redsync itself: tests/bench/peers/redsync/steps, step by step."""

    name, masters, validity = "redsync", MASTERS, True

    def __init__(self, stage, build):
        program = self.build(pathlib.Path(build) / "peers")
        self.process = subprocess.Popen(
            [program, *map(stage.socket, range(MASTERS))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def build(folder):
        if not shutil.which("go"):
            raise Missing("Go is missing (Debian: golang)")
        command = ["go", "build", "-buildvcs=false", "-o", str(folder / "redsync-steps"), "./steps"]
        try:
            built = subprocess.run(
                command, cwd=PEERS / "redsync", capture_output=True, text=True, timeout=120
            )
        except subprocess.TimeoutExpired:
            raise Missing("redsync does not build within 120 s") from None
        if built.returncode != 0:
            why = (built.stderr.strip() or "no reason given").splitlines()[-1]
            raise Missing(f"redsync does not build here: {why}")
        return folder / "redsync-steps"

    def step(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def lock(self, key, ttl_ms):
        answer = self.step("lock", key, ttl_ms)
        return int(answer[1]) if answer[:1] == ["ok"] else None

    def unlock(self, key):
        return self.step("unlock", key) == ["ok"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Told:
    """A client whose commands are written again here: to all masters, a quorum decides, and its
    keys are given back if there is none. ask_for() and give_back() have its commands."""

    name, masters, validity = "", MASTERS, True

    def __init__(self, stage, _):
        self.servers = [stage.redis(master) for master in range(MASTERS)]
        self.values = {}

    def value(self):
        raise NotImplementedError

    def ask_for(self, server, key, value, ttl_ms):
        raise NotImplementedError

    def give_back(self, server, key, value):
        raise NotImplementedError

    @staticmethod
    def votes(step, servers):
        """A master that refuses with an error has not voted for it."""
        count = 0
        for server in servers:
            try:
                count += bool(step(server))
            except Refused:
                pass
        return count

    def lock(self, key, ttl_ms):
        value, began = self.value(), time.time()
        votes = self.votes(lambda server: self.ask_for(server, key, value, ttl_ms), self.servers)
        valid_ms = int(ttl_ms - (time.time() - began) * 1000 - (int(ttl_ms * 0.01) + 2))
        if votes > MASTERS // 2 and valid_ms > 0:
            self.values[key] = value
            return valid_ms
        self.votes(lambda server: self.give_back(server, key, value), self.servers)
        return None

    def unlock(self, key):
        value = self.values.pop(key)
        return (
            self.votes(lambda server: self.give_back(server, key, value), self.servers)
            > MASTERS // 2
        )

    def close(self):
        """The stage ends the connections."""


class NodeRedlock(Told):
    """Version 5: scripts over all keys of a call, here one: looked for, then set without NX; given
    back if the value is the same. The value is 32 hex digits."""

    name = "node-redlock"
    ACQUIRE = (
        "for _, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then return 0 end end "
        "for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1], 'PX', ARGV[2]) end "
        "return #KEYS"
    )
    RELEASE = (
        "local gone = 0 for _, key in ipairs(KEYS) do "
        "if redis.call('GET', key) == ARGV[1] then redis.pcall('DEL', key) gone = gone + 1 end "
        "end return gone"
    )

    def value(self):
        return f"{random.getrandbits(128):032x}"

    def ask_for(self, server, key, value, ttl_ms):
        return server("EVAL", self.ACQUIRE, 1, key, value, ttl_ms) == 1

    def give_back(self, server, key, value):
        return server("EVAL", self.RELEASE, 1, key, value) == 1


class RedlockPy(Told):
    """SET NX PX on one master after the other, and a compare-and-delete. The value is 22 letters
    and digits."""

    name = "redlock-py"
    RELEASE = (
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
        "return 0"
    )

    def value(self):
        return "".join(random.choices(string.ascii_letters + string.digits, k=22))

    def ask_for(self, server, key, value, ttl_ms):
        return server("SET", key, value, "NX", "PX", ttl_ms) == "OK"

    def give_back(self, server, key, value):
        return server("EVAL", self.RELEASE, 1, key, value) == 1


CLIENTS = [Redsync, NodeRedlock, RedlockPy, RedisPy]
