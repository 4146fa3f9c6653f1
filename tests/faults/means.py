"""Constants, errors and means of the fault suite's stage: free ports, and a network namespace."""
import collections
import contextlib
import ctypes
import os
import random
import socket
import subprocess
import time

MASTERS, AGENTS = 5, 3
TTL_MS = 1000
# a missing marker is noticed, then all forgotten leases must run out (D5.3)
GUARD_MS = 2000 + TTL_MS + 1000
# and so much later they vote by a guess, if too few others can tell them their numbers
GUESS_MS = 10000
# the most that the shortest ttl allows, for a machine that does other things too
NODE_TIMEOUT_MS = 250
# ttl, a second of silence until a reconnect, half a second of back-off, and as much again
RECOVERY_MS = TTL_MS + 3000
CONTENDERS, SOLOISTS = 24, 6
PATIENCE_S = 15
ALIVE_S = 2  # for an answer that asks no master
# more than an agent had before: bounded replies, and the memory of more callers in more trouble
MEMORY_KIB = 24 << 10

# the kind of each key pattern, if not all are mutexes; the callers know them by these names
KINDS = {"rw/*": "kind: rw", "two/*": "permits: 2", "eight/*": "permits: 8"}
ADMIN = ["admin", "on", "nopass", "~*", "&*", "+@all"]

# Reservations of the last 100 ports: more than a process has at a time.
RESERVED = collections.deque(maxlen=100)

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def boottime_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def is_reserved(port):
    """Reserves it for this process among tests that run side by side, as tests/free_port.h does."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0lockagent-test-port-{port}".ljust(108, "\0"))
    except OSError:
        held.close()
        return False
    RESERVED.append(held)
    return True


def free_ports(count):
    """Different ones, outside the range that the kernel hands out, so that they stay free while
    their server is down, and none that browsers' fetch() refuses (10080)."""
    with contextlib.ExitStack() as probes:
        ports = []
        while len(ports) < count:
            port, probe = random.randrange(10100, 12000), probes.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                if is_reserved(port):
                    ports.append(port)
        return ports


def eventually(condition, seconds=PATIENCE_S):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def listen_on(port, over_tls):
    return ["--port", "0", "--tls-port", str(port)] if over_tls else ["--port", str(port)]


class Net:
    """A network namespace with one wire to it, for this process alone."""

    def __init__(self):
        number = os.getpid()
        self.name, self.wire, self.far = f"lockagent{number}", f"la{number}", f"lb{number}"
        self.subnet = f"10.{200 + number // 250 % 50}.{number % 250}"
        made = self.ip("netns", "add", self.name)
        if made.returncode != 0:
            raise Skipped(f"ip netns add: {made.stderr.strip()}")
        for command in (
            f"link add {self.wire} type veth peer name {self.far}",
            f"link set {self.far} netns {self.name}",
            f"addr add {self.subnet}.1/30 dev {self.wire}",
            f"link set {self.wire} up",
            f"-n {self.name} addr add {self.subnet}.2/30 dev {self.far}",
            f"-n {self.name} link set {self.far} up",
        ):
            done = self.ip(*command.split())
            if done.returncode != 0:
                self.close()
                raise Skipped(f"ip {command}: {done.stderr.strip()}")

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    def address(self, master):
        return f"{self.subnet}.2:{7001 + master}"

    def listen(self, master, over_tls):
        return [
            "ip",
            "netns",
            "exec",
            self.name,
            "redis-server",
            *listen_on(7001 + master, over_tls),
            "--bind",
            f"{self.subnet}.2",
            "--protected-mode",
            "no",
        ]

    def cut(self):
        self.ip("link", "set", self.wire, "down")

    def join(self):
        self.ip("link", "set", self.wire, "up")

    def cut_way_back(self):
        """Sent bytes arrive, and nothing comes back."""
        self.ip("-n", self.name, "route", "add", "blackhole", f"{self.subnet}.1/32")

    def join_way_back(self):
        self.ip("-n", self.name, "route", "del", "blackhole", f"{self.subnet}.1/32")

    def close(self):
        self.ip("netns", "del", self.name)
        self.ip("link", "del", self.wire)


class Failure(Exception):
    """A property besides the checker's must hold, and did not."""


class Skipped(Exception):
    """This machine does not allow the fault; neither passed nor failed."""
