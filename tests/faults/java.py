#!/usr/bin/env python3
"""A Java service beside the agents (R22): java.py SEED TTL_MS HISTORY SOCKET..., until SIGTERM. It
prints `ready` once it takes signals.

Each caller takes contested keys as RedissonRedLock does: RLock's script on one master after the
other, a quorum of them, and a release of the keys that it took in vain. It knows no guard, numbers
nothing and tells no waiter. It reports its holds to the history as looks (history.c): C2 does not
apply to a hold without a number. SIGUSR1: forceUnlock() of all keys."""
import json
import random
import signal
import socket
import sys
import threading
import time

CALLERS, KEYS, HOLD_S, TIMEOUT_S = 6, 8, (0.02, 1.2), 0.25
FIRST = 5000  # their numbers, behind those of all others

TAKES = """
if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return 1
end
return 0"""
RENEWS = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""
RELEASES = """
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then return 1 end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], '0')
return 1"""
FORCES = """
if redis.call('DEL', KEYS[1]) == 0 then return 0 end
redis.call('PUBLISH', KEYS[2], '0')
return 1"""


def boottime_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Master:
    """A connection that is made when it is needed, and given up at the first trouble."""

    def __init__(self, path):
        self.path, self.wire, self.replies = path, None, None

    def does(self, script, key, *words):
        """Whether it answered 1."""
        command = ["EVAL", script, "2", key, f"redisson_lock__channel:{{{key}}}", *map(str, words)]
        try:
            if self.wire is None:
                self.wire = socket.socket(socket.AF_UNIX)
                self.wire.settimeout(TIMEOUT_S)
                self.wire.connect(self.path)
                self.replies = self.wire.makefile("rb")
            parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in command]
            self.wire.sendall(f"*{len(parts)}\r\n{''.join(parts)}".encode())
            reply = self.replies.readline()
            if not reply.startswith(b":"):
                raise OSError(reply)
            return reply == b":1\r\n"
        except OSError:
            self.close()
            return False

    def close(self):
        if self.wire is not None:
            self.wire.close()
        self.wire = None


class Caller(threading.Thread):
    def __init__(self, number, seed, ttl_ms, sockets, tell, ending):
        super().__init__()
        self.number, self.ttl_ms, self.tell_all, self.ending = number, ttl_ms, tell, ending
        self.random, self.masters = random.Random(seed * 1000 + number), list(map(Master, sockets))
        self.owner, self.key, self.taken = "", "", 0

    def tell(self, op, began_us, **more):
        event = {"op": op, "caller": FIRST + self.number, "agent": -1, "key": self.key}
        event |= {"hold": self.owner, "t0": began_us, "t1": boottime_us(), "outcome": "ok"}
        self.tell_all(event | more)

    def ask(self, script, *words):
        """True if a quorum of the masters answers 1."""
        lock = f"lock:{self.key}"
        votes = sum(master.does(script, lock, self.owner, *words) for master in self.masters)
        return votes > len(self.masters) // 2

    def holds_after(self, script):
        """Takes or renews it; returns the end of its validity, less the time of the question."""
        began_us = boottime_us()
        has = self.ask(script, self.ttl_ms)
        left_ms = (began_us - boottime_us()) // 1000 + self.ttl_ms - 2
        if not has or left_ms <= 0:
            return False
        until_ms = boottime_us() // 1000 + left_ms
        self.tell("look", began_us, until_ms=until_ms, for_ms=left_ms)
        return True

    def run(self):
        while not self.ending.is_set():
            self.taken += 1
            self.key = f"shared/{self.random.randrange(KEYS)}"
            self.owner = (
                f"9f0c6a4e-5e0b-4b63-9d0d-{self.random.randrange(1 << 48):012x}:{self.taken}"
            )
            if self.holds_after(TAKES):
                until = time.monotonic() + self.random.uniform(*HOLD_S)
                while time.monotonic() < until and not self.ending.is_set():
                    time.sleep(min(self.ttl_ms / 3000, max(until - time.monotonic(), 0)))
                    if time.monotonic() < until and not self.holds_after(RENEWS):
                        break
                self.tell("release", boottime_us())
            self.ask(RELEASES)
            time.sleep(self.random.uniform(0.002, 0.02))


def force_all(sockets):
    masters = list(map(Master, sockets))
    for key in range(KEYS):
        for master in masters:
            master.does(FORCES, f"lock:shared/{key}")
    for master in masters:
        master.close()


def main():
    seed, ttl_ms, path, *sockets = sys.argv[1:]
    ending, lock = threading.Event(), threading.Lock()
    signals = (signal.SIGTERM, signal.SIGUSR1)
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    print("ready", flush=True)
    with open(path, "a", encoding="utf-8", buffering=1) as history:

        def tell(event):
            with lock:
                history.write(json.dumps(event, separators=(",", ":")) + "\n")

        callers = [
            Caller(number, int(seed), int(ttl_ms), sockets, tell, ending)
            for number in range(CALLERS)
        ]
        for caller in callers:
            caller.start()
        while signal.sigwait(signals) == signal.SIGUSR1:
            force_all(sockets)
        ending.set()
        for caller in callers:
            caller.join()


if __name__ == "__main__":
    main()
