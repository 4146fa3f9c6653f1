"""Redis-py's lock under the load of the benchmark, on one master: it knows no more.

Threads that each take and give back a lock of their own, over and over, in the window that
tests/bench/measure.h describes, with its words as the result.
"""
import argparse
import collections
import sys
import threading
import time

import redis


def cpu_s(pid):
    """The CPU time of a process, of all its threads; 0 when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def quantile_us(ordered, share):
    return 1e6 * ordered[int(share * (len(ordered) - 1))]


class Caller:
    def __init__(self, lock):
        self.lock, self.acquires, self.pairs, self.error = lock, [], [], None

    def run(self, opened, over):
        try:
            while not over.is_set():
                counts, began = opened.is_set(), time.monotonic()
                if not self.lock.acquire(blocking=False):
                    raise redis.exceptions.LockError("held by somebody else")
                acquired = time.monotonic()
                self.lock.release()
                if counts and not over.is_set():
                    self.acquires.append(acquired - began)
                    self.pairs.append(time.monotonic() - began)
        except redis.exceptions.RedisError as error:
            self.error = error


def watched_s(watches):
    spent = collections.Counter(client=time.process_time())
    for word in watches:
        name, pid = word.split(":")
        spent[name] += cpu_s(int(pid))
    return spent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--master", required=True, type=int)
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--prefix", default="redis-py-")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--watch", action="append", default=[])
    options = parser.parse_args()
    pool = redis.ConnectionPool(port=options.master, max_connections=options.callers)
    client = redis.Redis(connection_pool=pool)
    callers = [
        Caller(client.lock(f"lock:{options.prefix}{i}", timeout=30, thread_local=False))
        for i in range(options.callers)
    ]
    opened, over = threading.Event(), threading.Event()
    threads = [threading.Thread(target=caller.run, args=(opened, over)) for caller in callers]
    for thread in threads:
        thread.start()
    time.sleep(options.warmup)
    before, began = watched_s(options.watch), time.monotonic()
    opened.set()
    time.sleep(options.seconds)
    over.set()
    after, lasted = watched_s(options.watch), time.monotonic() - began
    for thread in threads:
        thread.join()
    errors = [str(caller.error) for caller in callers if caller.error]
    pairs = sorted(pair for caller in callers for pair in caller.pairs)
    acquires = sorted(acquire for caller in callers for acquire in caller.acquires)
    if errors or not pairs:
        sys.exit(f"redis-py: not one pair in the window, or an error: {errors[:1]}")
    words = {"pairs": len(pairs), "seconds": lasted, "pairs_per_s": len(pairs) / lasted}
    for name, ordered in ("acquire", acquires), ("pair", pairs):
        words[f"{name}_p50_us"] = quantile_us(ordered, 0.5)
        words[f"{name}_p99_us"] = quantile_us(ordered, 0.99)
        words[f"{name}_max_us"] = quantile_us(ordered, 1)
    for name in after:
        words[f"{name}_cpu_us"] = 1e6 * (after[name] - before[name]) / len(pairs)
    print(*(f"{name}={value:.4f}" for name, value in words.items()), "refused=0")


if __name__ == "__main__":
    main()
