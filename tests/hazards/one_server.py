"""Recipes on one redis-server that is always there: flaws that need no failure of it."""
import signal
import socket
import time

from stage import (
    LEASE_MS,
    LONG_MS,
    MASTERS,
    PATIENCE_S,
    REFUSED,
    RELEASED,
    SHORT_MS,
    SOON_S,
    Hazard,
    await_sight,
    command,
    eventually,
    pause_ms,
    see,
)
from means import boottime_us

GONE = (404, 410, 412)  # of a token that is no holder's any more


class DeadHolder(Hazard):
    system = "`SETNX`"
    flaw = "the lock of a client that died stays forever"
    here = "it runs out, and the next waiter is granted"

    def on_redis(self, stage):
        first, second = stage.redis(), stage.redis()
        see("A has the lock", first("SETNX", "dead", "A") == 1)
        first.close()
        pause_ms(2 * LEASE_MS)
        see("B is refused", second("SETNX", "dead", "B") == 0)
        see("the key has no end", second("PTTL", "dead") == -1)

    def on_lockagent(self, stage):
        first = stage.holder("dead", agent=0, ttl_ms=SHORT_MS)
        see("each key of A has an end", -1 not in stage.ask_all("PTTL", "lock:dead"))
        first.vanish()
        stage.holder("dead", agent=1)


class CutApart(Hazard):
    system = "`SETNX`, then `EXPIRE`"
    flaw = "a client that dies between the two leaves a lock without an end"
    here = "one script: whole or not at all, at every cut of the connection"

    @staticmethod
    def ends_after_each_byte(stage, commands, name, key):
        """Sends the commands, cut after their first byte, their second, and so on, each to a key of
        its own in place of `name`. Returns the PTTL of each `key`."""
        text, ends, look = b"".join(command(*words) for words in commands), [], stage.redis()
        for count in range(len(text) + 1):
            other = f"{count:0{len(name)}}"
            victim = stage.redis()
            victim.socket.sendall(text.replace(name.encode(), other.encode())[:count])
            victim.socket.shutdown(socket.SHUT_WR)
            while victim.socket.recv(4096):  # until the server has seen the end of it
                pass
            victim.close()
            ends.append(look("PTTL", key.replace(name, other)))
        return ends

    def on_redis(self, stage):
        commands = [("SETNX", "split", "A"), ("PEXPIRE", "split", LONG_MS)]
        ends = self.ends_after_each_byte(stage, commands, "split", "split")
        see("a key without an end", -1 in ends)
        see("the whole of it is a lock", ends[-1] > 0)

    def on_lockagent(self, stage):
        heard = stage.watch_commands()
        stage.holder("split", agent=0)
        words = heard("EVALSHA", "lock:split")
        ends = self.ends_after_each_byte(stage, [words], "split", "lock:split")
        see("each key is absent or has an end", all(end == -2 or end > 0 for end in ends))
        see("the whole of it is a lock", ends[-1] > 0)


class BareDelete(Hazard):
    system = "`SET NX PX`, released by `DEL`"
    flaw = "a holder that comes too late frees the next one's lock: two holders"
    here = "a release has a token, and the late one is refused"

    def on_redis(self, stage):
        a, b, c = (stage.redis() for _ in "ABC")
        see("A has the lock", a("SET", "bare", "A", "NX", "PX", LEASE_MS) == "OK")
        stage.await_expiry(b, "bare")
        see("B has the lock", b("SET", "bare", "B", "NX", "PX", LONG_MS) == "OK")
        a("DEL", "bare")
        see("C has it too", c("SET", "bare", "C", "NX", "PX", LONG_MS) == "OK")

    def on_lockagent(self, stage):
        a = stage.holder("bare", agent=0, ttl_ms=SHORT_MS)
        b = stage.holder("bare", agent=1)
        elsewhere = stage.caller(2)
        elsewhere.token = a.token
        see("A's release is refused", a.delete("bare") in GONE)
        see("also by an agent that never knew it", elsewhere.delete("bare") in GONE)
        see("C is refused", stage.caller(2).post("bare") in REFUSED)
        see("B still has the lock", b.decided("PUT", "bare") == 200)


class GetThenDelete(Hazard):
    system = "`GET`, compare, `DEL`"
    flaw = "the lock changes hands between the two, and the next holder's is deleted"
    here = "the masters compare and delete in one step, however late it comes"

    def on_redis(self, stage):
        a, b, c = (stage.redis() for _ in "ABC")
        see("A has the lock", a("SET", "late", "A", "NX", "PX", SHORT_MS) == "OK")
        see("A looks, and it is its own", a("GET", "late") == "A")
        stage.await_expiry(b, "late")
        see("B has the lock", b("SET", "late", "B", "NX", "PX", LONG_MS) == "OK")
        a("DEL", "late")
        see("C has it too", c("SET", "late", "C", "NX", "PX", LONG_MS) == "OK")

    def on_lockagent(self, stage):
        a = stage.holder("late", agent=0, ttl_ms=2 * SHORT_MS)
        heard = [stage.watch_commands(master) for master in range(MASTERS)]
        stage.weather(stage.links(agents=[0]), up_hole=1)
        a.send("DELETE", "late")
        b = stage.holder("late", agent=1)
        stage.weather(stage.links(agents=[0]), up_hole=0)
        for await_command in heard:
            await_command("EVALSHA", "lock:late", a.token.split(".")[0])
        a.status()
        see("C is refused", stage.caller(2).post("late") in REFUSED)
        see("B still has the lock", b.decided("PUT", "late") == 200)


class CountedForEver(Hazard):
    system = "`INCR`, the client that gets 1 holds the lock"
    flaw = "after the holder dies the counter only grows, and no client ever gets the lock again"
    here = "a refused caller leaves nothing behind"

    def on_redis(self, stage):
        first = stage.redis()
        see("A has the lock", first("INCR", "count") == 1)
        first.close()
        pause_ms(LEASE_MS)
        others = [stage.redis()("INCR", "count") for _ in range(5)]
        see("nobody gets 1 again", others == [2, 3, 4, 5, 6])
        see("the key has no end", stage.redis()("PTTL", "count") == -1)

    def on_lockagent(self, stage):
        stage.holder("count", agent=0, ttl_ms=2 * SHORT_MS).vanish()
        other = stage.caller(1)
        see("B is refused", other.post("count") in REFUSED)
        await_sight("one of the next is granted", lambda: other.post("count") == 201)


class LosersProlong(Hazard):
    system = "`INCR` and `EXPIRE` by every client that asks"
    flaw = "refused clients prolong the lock of a dead holder, again and again"
    here = "a lease becomes shorter although others ask; then the next waiter is granted"

    @staticmethod
    def ask(client):
        won = client("INCR", "prolonged") == 1
        client("PEXPIRE", "prolonged", 5 * SHORT_MS)
        return won

    def on_redis(self, stage):
        first, other = stage.redis(), stage.redis()
        see("A has the lock", self.ask(first))
        first.close()
        end, first_end = (other("PEXPIRETIME", "prolonged") for _ in range(2))
        while time.time() * 1000 < first_end + LEASE_MS:
            pause_ms(SHORT_MS / 20)
            see("B is refused", not self.ask(other))
            before, end = end, other("PEXPIRETIME", "prolonged")
            see("the end of A's lock moves away", end > before)

    def on_lockagent(self, stage):
        a = stage.holder("prolonged", agent=0, ttl_ms=2 * SHORT_MS)
        a.vanish()

        def leases():
            """How many ms each master's lease of A has left; None if A has no key there. An attempt
            of B may have set its own, which it undoes."""
            script = "return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}"
            replies = stage.ask_all("EVAL", script, 1, "lock:prolonged")
            return [
                left if (value or "").startswith(a.token[:40]) else None for value, left in replies
            ]

        before, refused = leases(), 0
        while stage.caller(1).post("prolonged", ttl=f"{LONG_MS}ms") in REFUSED:
            after = leases()
            both = [each for each in zip(before, after) if None not in each]
            see("no lease rises", all(later <= earlier for earlier, later in both))
            before, refused = after, refused + 1
        see("many were refused, and then one was granted", refused >= 3)


class TwoSeeItExpired(Hazard):
    system = "the time of its end as value; `GET`, `DEL`, `SETNX`"
    flaw = "two clients see that it is over, and each removes it and takes it: two holders"
    here = "masters end a lease by themselves; of two clients that come at once one is granted"

    def on_redis(self, stage):
        a, b = stage.redis(), stage.redis()
        a("SETNX", "over", int(time.time() * 1000) - 1)
        for client in a, b:
            see("it is over", int(client("GET", "over")) < time.time() * 1000)
        for client, name in (a, "A"), (b, "B"):
            client("DEL", "over")
            taken = client("SETNX", "over", int(time.time() * 1000) + LONG_MS)
            see(f"{name} has the lock", taken == 1)

    def on_lockagent(self, stage):
        stage.holder("over", agent=0, ttl_ms=SHORT_MS).vanish()
        both = [stage.caller(agent) for agent in (1, 2)]
        for caller in both:
            caller.send("POST", "over", ttl=f"{LONG_MS}ms", wait=f"{PATIENCE_S}s")
        see("one is answered", eventually(lambda: any(each.is_answered() for each in both)))
        first, second = sorted(both, key=lambda each: not each.is_answered())
        see("it is granted", first.status() == 201)
        see("the other one is not", not second.is_answered(within_s=0.2))
        see("it releases", first.delete("over") in RELEASED)
        see("then the other one is granted", second.status() == 201)


class ClockAhead(Hazard):
    system = "the time of its end as value; `GETSET`"
    flaw = "a client whose clock is ahead takes a living lock: two holders"
    here = "an agent's clock ends no lease of others"
    world = {"ahead": (1,)}

    def on_redis(self, stage):
        a, b, ends = stage.redis(), stage.redis(), int(time.time() * 1000) + LONG_MS
        see("A has the lock", a("SETNX", "ahead", ends) == 1)
        now = int(time.time() * 1000) + 60000  # by B's clock
        see("B is refused", b("SETNX", "ahead", now + LONG_MS) == 0)
        see("for B it is over", int(b("GET", "ahead")) < now)
        see("B takes it", int(b("GETSET", "ahead", now + LONG_MS)) < now)
        see("A still has it, by its own clock", time.time() * 1000 < ends)

    def on_lockagent(self, stage):
        a, b = stage.holder("ahead", agent=0), stage.caller(1)
        see("B is refused", b.post("ahead") in REFUSED)
        see("A still has the lock", a.decided("PUT", "ahead") == 200)
        see("A releases it", a.delete("ahead") in RELEASED)
        later = stage.holder("ahead", agent=1)
        see("B's number is larger", later.fence > a.fence)


class NobodyHolds(Hazard):
    system = "the time of its end as value; `GETSET` after a release"
    flaw = "the client that set the key believes that it lost: the key is locked without a holder"
    here = "a caller that is not told of a grant has left nothing behind"

    def on_redis(self, stage):
        a, b, c, now = stage.redis(), stage.redis(), stage.redis(), int(time.time() * 1000)
        see("A has the lock", a("SETNX", "nobody", now - 1) == 1)
        see("B is refused", b("SETNX", "nobody", now + LONG_MS) == 0)
        see("B sees that it is over", int(b("GET", "nobody")) < now)
        a("DEL", "nobody")
        old = b("GETSET", "nobody", now + LONG_MS)
        see("B finds no lock that is over, and goes away", old is None)
        see("C is refused", c("SETNX", "nobody", now + LONG_MS) == 0)
        see("to C it is held", int(c("GET", "nobody")) > time.time() * 1000)

    def on_lockagent(self, stage):
        a, b = stage.holder("nobody", agent=0), stage.caller(1)
        see("A releases", a.delete("nobody") in RELEASED)
        await_sight("each master has released it", lambda: not stage.masters_with("nobody"))
        heard = stage.watch_commands()
        stage.weather(stage.links(agents=[1]), down_hole=1)
        status = b.post("nobody", ttl=f"{LONG_MS}ms")
        heard("EVALSHA", "lock:nobody")
        see("B was granted, and is not told: 503", status == 503)
        stage.holder("nobody", agent=2)
        stage.weather(stage.links(agents=[1]), down_hole=0)


class HashLock(Hazard):
    """Its field is the owner, its value how often the owner is in."""

    ENTER = """
        if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
            return 0
        end
        local count = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        return count"""

    def enter(self, client, name, lease_ms=LONG_MS):
        client.send("EVAL", self.ENTER, 1, "hash", name, lease_ms)


class CountedTwice(HashLock):
    system = "a hash that counts re-entries"
    flaw = "asked again after a lost answer it counts twice, and one release leaves it locked"
    here = "an `Idempotency-Key` makes it the same request"
    shared = True

    LEAVE = """
        local count = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
        if count < 1 then redis.call('DEL', KEYS[1]) end
        return count"""

    def on_redis(self, stage):
        a, again, other = stage.redis(), stage.redis(), stage.redis()
        self.enter(a, "A")
        await_sight("A is in", lambda: other("HGET", "hash", "A") == "1")
        a.close()  # and the reply with it
        self.enter(again, "A")
        see("asked again, A is in twice", again.reply() == 2)
        see("A leaves", again("EVAL", self.LEAVE, 1, "hash", "A") == 1)
        self.enter(other, "B")
        see("B is refused", other.reply() == 0)

    def on_lockagent(self, stage):
        once = {"Idempotency-Key": "0123456789abcdef"}
        first, again = stage.caller(0), stage.caller(0)
        first.send("POST", "hash", headers=once, ttl=f"{LONG_MS}ms")
        see("A is answered", first.is_answered(PATIENCE_S))
        first.vanish()  # and the answer with it
        again.send("POST", "hash", headers=once, ttl=f"{LONG_MS}ms")
        see("asked again, A has it", again.status() == 200)
        looked = stage.ask(0, "GET", "/locks/hash")[1]["hold"]
        see("it is in once", looked["count"] == 1)
        see("A releases", again.delete("hash") in RELEASED)
        stage.holder("hash", agent=1)


class LeaseCut(HashLock):
    system = "a hash that counts re-entries, and `PEXPIRE`"
    flaw = "entered again for a second, it ends in a second, and with it a lease of a minute"
    here = "nothing shortens a lease"
    shared = True
    world = {"limits": {"max_ttl": "60s"}}

    def on_redis(self, stage):
        a = stage.redis()
        self.enter(a, "A", 60000)
        see("A is in for a minute", a.reply() == 1 and a("PTTL", "hash") > SHORT_MS)
        self.enter(a, "A", SHORT_MS)
        see("A is in again", a.reply() == 2)
        see("of the minute a second is left", a("PTTL", "hash") <= SHORT_MS)

    def on_lockagent(self, stage):
        a = stage.holder("hash", ttl_ms=60000)
        see("A asks for a second", a.decided("PUT", "hash", ttl=f"{SHORT_MS}ms") == 200)
        see("A has more than that", a.answer["valid_for_ms"] > SHORT_MS)
        ends = stage.ask_all("PTTL", "lock:hash")
        see("no lease is shorter", all(end > SHORT_MS for end in ends if end != -2))


class OneEndForAll(Hazard):
    system = "a hash of readers, and `PEXPIRE` by each of them"
    flaw = "a short reader ends the lease of all readers: a writer enters beside a reader"
    here = "each reader has an end of its own, and the writer waits for both"
    world = {"policy": "kind: rw"}

    READ = """
        if redis.call('HGET', KEYS[1], 'mode') == 'write' then return 0 end
        redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[1], 1)
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""

    WRITE = """
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[1], 1)
        return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""

    @staticmethod
    def enter(client, script, name, lease_ms=LONG_MS):
        return client("EVAL", script, 1, "both", name, lease_ms) == 1

    def on_redis(self, stage):
        a, b, writer = stage.redis(), stage.redis(), stage.redis()
        began = time.monotonic()
        see("A reads", self.enter(a, self.READ, "A"))
        see("the writer is refused", not self.enter(writer, self.WRITE, "C"))
        see("B reads for a moment", self.enter(b, self.READ, "B", LEASE_MS))
        stage.await_expiry(writer, "both")
        see("the writer is in", self.enter(writer, self.WRITE, "C"))
        see("A's lease is not over", time.monotonic() < began + LONG_MS / 1000)

    def on_lockagent(self, stage):
        a = stage.holder("both", agent=0, mode="read")
        stage.holder("both", agent=1, mode="read", ttl_ms=SHORT_MS)
        writer = stage.caller(2)
        writer.send("POST", "both", ttl=f"{LONG_MS}ms", wait=f"{PATIENCE_S}s")
        look = stage.caller(0)
        await_sight("A alone reads", lambda: self.readers(look) == 1)
        see("the writer waits for A", not writer.is_answered(LEASE_MS / 1000))
        see("A has the lock still", a.decided("PUT", "both") == 200)
        see("A releases", a.delete("both") in RELEASED)
        see("the writer is in", writer.status() == 201)
        see("after both of them", writer.fence > a.fence)

    @staticmethod
    def readers(caller):
        caller.send("GET", "both")
        caller.status()
        return caller.answer["readers"]


class RenewerStopped(Hazard):
    system = "renewed by a thread of its own"
    flaw = (
        "stopped for longer than the lease, the holder goes on and overwrites the next one's work"
    )
    here = "`lost` is reported first, and the fencing number keeps the late write out"

    REGISTER = """
        if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'number') or 0) then
            return 0
        end
        redis.call('HSET', KEYS[1], 'number', ARGV[1], 'value', ARGV[2])
        return 1"""

    def on_redis(self, stage):
        a, b = stage.redis(), stage.redis()
        see("A has the lock", a("SET", "stopped", "A", "NX", "PX", LEASE_MS) == "OK")
        a("PEXPIRE", "stopped", LEASE_MS)  # as its thread does
        stage.await_expiry(b, "stopped")  # neither A nor its thread takes a step
        see("B has the lock", b("SET", "stopped", "B", "NX", "PX", LONG_MS) == "OK")
        b("SET", "register", "of B")
        a("SET", "register", "of A")  # A goes on after its pause
        see("B still has the lock", b("GET", "stopped") == "B")
        see("its write is lost", b("GET", "register") == "of A")

    def on_lockagent(self, stage):
        storage, a = stage.redis(), stage.caller(0)
        wait = f"{SOON_S:.0f}s"
        a.send("POST", "stopped", ttl=f"{2 * SHORT_MS}ms", wait=wait, bind="connection")
        see("A has the lock", a.open_stream() == 201)
        stage.signal("agent0", signal.SIGSTOP)
        b = stage.holder("stopped", agent=1)
        told = self.write(storage, b, "of B")
        see("B's write is taken", told == 1)
        over_ms = boottime_us() // 1000
        stage.signal("agent0", signal.SIGCONT)
        line = a.line()
        while line["event"] == "renewed" and line["valid_until_boottime_ms"] < over_ms:
            line = a.line()  # said before the agent was stopped
        see("the first word to A is that it has lost", line["event"] == "lost")
        see("A's write is refused", self.write(storage, a, "of A") == 0)
        see("B's write is there", storage("HGET", "storage", "value") == "of B")

    def write(self, storage, caller, value):
        return storage("EVAL", self.REGISTER, 1, "storage", caller.fence, value)


class WorkerDead(Hazard):
    system = "renewed by a process beside it"
    flaw = "the worker dies, the renewer lives, and the lock stays forever"
    here = "`max_hold` ends it; a bound one ends with its caller"

    def on_redis(self, stage):
        worker, renewer, other = (stage.redis() for _ in range(3))
        taken = worker("SET", "orphan", "A", "NX", "PX", 5 * SHORT_MS)
        see("A has the lock", taken == "OK")
        worker.close()
        until = time.monotonic() + 5.2 * SHORT_MS / 1000
        while time.monotonic() < until:
            see("it is renewed", renewer("PEXPIRE", "orphan", 5 * SHORT_MS) == 1)
            pause_ms(SHORT_MS / 20)
        refused = other("SET", "orphan", "B", "NX", "PX", LEASE_MS)
        see("B is refused after the lease", refused is None)

    def on_lockagent(self, stage):
        capped = {"renew": "agent", "max_hold": f"{2 * SHORT_MS}ms"}
        stage.holder("orphan", ttl_ms=SHORT_MS, **capped).vanish()
        stage.holder("orphan", agent=1)
        bound = stage.caller(0)
        wait = f"{SOON_S:.0f}s"
        bound.send("POST", "bound", ttl=f"{LONG_MS}ms", wait=wait, bind="connection")
        see("a bound caller has its lock", bound.open_stream() == 201)
        bound.stream.close()
        bound.vanish()
        stage.holder("bound", agent=1)


ROWS = [
    DeadHolder,
    CutApart,
    BareDelete,
    GetThenDelete,
    CountedForEver,
    LosersProlong,
    TwoSeeItExpired,
    ClockAhead,
    NobodyHolds,
    CountedTwice,
    LeaseCut,
    OneEndForAll,
    RenewerStopped,
    WorkerDead,
]
