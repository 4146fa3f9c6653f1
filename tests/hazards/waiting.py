"""Recipes for callers that wait: which one is told of a release, which one is next, and the costs
of waiting.
"""
import random
import re
import select
import time

from stage import (
    AGENTS,
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
    see,
)


class SubscribedTooLate(Hazard):
    system = "`SET NX`, and `SUBSCRIBE` if it is taken"
    flaw = "a release between the two is missed: the lock is free, and the waiter sleeps"
    here = "asked once more when the subscription is confirmed"
    shared = True
    world = {"retry": "{min: 1m, max: 1m}"}  # so that no waiter is woken by chance

    def on_redis(self, stage):
        a, b, listener = stage.redis(), stage.redis(), stage.redis()
        see("A has the lock", a("SET", "told", "A", "NX", "PX", LONG_MS) == "OK")
        see("B is refused", b("SET", "told", "B", "NX", "PX", LONG_MS) is None)
        a("DEL", "told")
        see("A's release reaches nobody", a("PUBLISH", "released:told", "A") == 0)
        see("B listens", listener("SUBSCRIBE", "released:told")[2] == 1)
        see("B hears nothing", not listener.is_answered(LEASE_MS / 1000))
        see("the lock is free all the while", a("EXISTS", "told") == 0)

    def on_lockagent(self, stage):
        a = stage.holder("told", agent=0)
        heard = [stage.watch_commands(master) for master in range(MASTERS)]
        stage.weather(stage.links(agents=[1]), refuse=1)  # new connections, as the subscriber's
        b = stage.caller(1)
        b.send("POST", "told", ttl=f"{LONG_MS}ms", wait=f"{SOON_S:.0f}s")
        for await_command in heard:
            await_command("EVALSHA", "lock:told")
        see("A releases", a.delete("told") in RELEASED)
        await_sight("each master has released it", lambda: not stage.masters_with("told"))
        for channel in "lockagent:channel:lock:told", "redisson_lock__channel:{lock:told}":
            listening = stage.ask_all("PUBSUB", "NUMSUB", channel)
            see("A's release reached nobody", all(count == 0 for _, count in listening))
        stage.weather(stage.links(agents=[1]), refuse=0)
        see("B is granted", b.status() == 201)


class DeadHead(Hazard):
    system = "a list as queue, its head is next"
    flaw = "the first waiter died, and no other is served any more"
    here = "with `order: fair` a dead agent's ticket is void after 3 s"
    world = {"policy": "order: fair"}

    def on_redis(self, stage):
        a, dead, b = stage.redis(), stage.redis(), stage.redis()
        for client, name in (a, "A"), (dead, "dead"), (b, "B"):
            client("RPUSH", "line", name)
        see("A is the head, and has the lock", a("LINDEX", "line", 0) == "A")
        dead.close()
        see("A leaves", a("LPOP", "line") == "A")
        time.sleep(2 * LEASE_MS / 1000)
        see("the dead one is next, for ever", b("LINDEX", "line", 0) == "dead")
        see("the line has no end", b("PTTL", "line") == -1)

    def on_lockagent(self, stage):
        a = stage.holder("line", agent=0)
        dead, b = stage.caller(1), stage.caller(2)
        dead.send("POST", "line", wait=f"{PATIENCE_S}s")
        tickets = "lockagent:ticket:lock:line"
        await_sight("it waits", lambda: all(stage.ask_all("EXISTS", tickets)))
        b.send("POST", "line", wait=f"{PATIENCE_S}s")
        await_sight("B waits behind it", lambda: stage.ask(2, "GET", "/locks")[1]["waiting"])
        stage.kill("agent1")
        see("A releases", a.delete("line") in RELEASED)
        see("B is granted", b.status() == 201)


class ReadersPass(Hazard):
    system = "a counter of readers, and a key for the writer"
    flaw = "new readers pass the writer that waits, again and again: it never comes in"
    here = "while a writer waits the next new reader waits behind it"
    world = {"policy": "kind: rw", "patient": True}  # a failed round withdraws the ticket (R9)

    NEW_READERS = 100
    READ = """
        if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
        return redis.call('INCR', KEYS[2])"""
    LEAVE = "return redis.call('DECR', KEYS[2])"
    WRITE = """
        if tonumber(redis.call('GET', KEYS[2]) or 0) > 0 then return 0 end
        return redis.call('SETNX', KEYS[1], 'writer')"""

    @staticmethod
    def run(client, script):
        return client("EVAL", script, 2, "pass:writer", "pass:readers")

    def on_redis(self, stage):
        reader, new, writer = stage.redis(), stage.redis(), stage.redis()
        see("A reads", self.run(reader, self.READ) == 1)
        see("the writer is refused, and will ask again", self.run(writer, self.WRITE) == 0)
        for _ in range(self.NEW_READERS):
            see("a new reader is in", self.run(new, self.READ) == 2)
            see("the one before it leaves", self.run(reader, self.LEAVE) == 1)
            see("the writer is refused", self.run(writer, self.WRITE) == 0)

    def on_lockagent(self, stage):
        first, second = (stage.holder("pass", agent=agent, mode="read") for agent in (0, 2))
        writer, new = stage.caller(1), stage.caller(2)
        writer.send("POST", "pass", ttl=f"{LONG_MS}ms", wait=f"{PATIENCE_S}s")
        tickets = "lockagent:ticket:lock:pass"
        await_sight("the writer waits", lambda: all(stage.ask_all("EXISTS", tickets)))
        new.send("POST", "pass", mode="read", ttl=f"{LONG_MS}ms", wait=f"{PATIENCE_S}s")
        passing = [stage.caller(agent) for agent in range(AGENTS)]
        for number in range(self.NEW_READERS):
            status = passing[number % AGENTS].post("pass", mode="read", ttl=f"{LONG_MS}ms")
            see(f"no new reader is in: {status}", status in REFUSED)
        see("the first one leaves", first.delete("pass") in RELEASED)
        see("the new one waits, and the writer", not (new.is_answered() or writer.is_answered()))
        see("the second one leaves", second.delete("pass") in RELEASED)
        see("the writer is in", writer.status() == 201)
        see("the new one waits for it", not new.is_answered(LEASE_MS / 1000))
        see("the writer leaves", writer.delete("pass") in RELEASED)
        see("the new one is in", new.status() == 201)


CALLERS, GRANTS, HOLD_S = 100, 1000, 0.001  # of a crowd that wants one key


class Tally:
    """Keeps the waiting callers of each queue with their times; counts the grants that overtake
    one.
    """

    def __init__(self, name):
        self.name, self.began, self.grants, self.overtaken = name, time.monotonic(), 0, 0
        self.lines, self.longest_s = {}, 0.0

    def comes(self, who, line=0):
        self.lines.setdefault(line, {})[who] = time.monotonic()

    def is_granted(self, who, line=0):
        waiting = self.lines[line]
        self.grants += 1
        self.overtaken += next(iter(waiting)) != who
        self.longest_s = max(self.longest_s, time.monotonic() - waiting.pop(who))

    def __str__(self):
        rate = self.grants / (time.monotonic() - self.began)
        return (
            f"{self.name}: {rate:.0f} grants/s, {self.overtaken} of {self.grants} overtake, "
            f"longest wait {1000 * self.longest_s:.0f} ms"
        )


def poll(stage, tally, pause_s, grants):
    """A refused caller asks again, after a pause of about so long. A caller that has released asks
    again at once.
    """
    clients, chance = [stage.redis() for _ in range(CALLERS)], random.Random(1)
    poller, numbers = select.poll(), {}
    for number, client in enumerate(clients):
        numbers[client.socket.fileno()] = number
        poller.register(client.socket, select.POLLIN)
        tally.comes(number)
    asks_at, came, holder, until = dict.fromkeys(range(CALLERS), 0.0), CALLERS, None, 0.0
    while tally.grants < grants or holder is not None:
        now = time.monotonic()
        if holder is not None and now >= until:
            clients[holder]("DEL", "crowd")
            if came < grants:
                tally.comes(holder)
                came, asks_at[holder] = came + 1, now
            holder = None
        for number in [number for number, at in asks_at.items() if at <= now]:
            del asks_at[number]
            clients[number].send("SET", "crowd", number, "NX", "PX", LONG_MS)
        next_s = min([*asks_at.values(), *([until] if holder is not None else [])], default=now)
        for descriptor, _ in poller.poll(max(1000 * (next_s - now), 0)):
            number = numbers[descriptor]
            if clients[number].reply() is None:
                asks_at[number] = time.monotonic() + pause_s * chance.uniform(0.5, 1.5)
                continue
            see("nobody else has it", holder is None)
            tally.is_granted(number)
            holder, until = number, time.monotonic() + HOLD_S


def ask(tally, caller, number):
    tally.comes(number, line=number % AGENTS)
    caller.send("POST", "crowd", ttl="60s", wait="60s")


def form_lines(stage, tally):
    """At three agents, one caller after the other; the first of all has the lock then."""
    callers = [stage.caller(number % AGENTS) for number in range(CALLERS)]
    for number, caller in enumerate(callers):
        ask(tally, caller, number)
        ahead = number // AGENTS + (number % AGENTS > 0)
        await_sight(
            "it has the lock, or waits",
            lambda caller=caller, number=number, ahead=ahead: caller.is_answered()
            or len(stage.ask(number % AGENTS, "GET", "/locks?limit=1000")[1]["waiting"]) == ahead,
        )
    return callers


def stand_in_line(stage, tally):
    """A caller that has released comes again, behind all others at its agent."""
    callers = form_lines(stage, tally)
    poller, numbers = select.poll(), {}
    for number, caller in enumerate(callers):
        numbers[caller.http.sock.fileno()] = number
        poller.register(caller.http.sock, select.POLLIN)
    came, last_fence, leaving = CALLERS, 0, set()
    while tally.grants < GRANTS or leaving:
        answered = poller.poll(1000 * PATIENCE_S)
        see("somebody is answered", answered)
        for descriptor, _ in answered:
            number = numbers[descriptor]
            caller, status = callers[number], callers[number].status()
            if number in leaving:
                leaving.remove(number)
                see("it has released", status in RELEASED)
                if came < GRANTS:
                    came += 1
                    ask(tally, caller, number)
                continue
            see("it is granted", status == 201)
            see("its number is the largest", caller.fence > last_fence)
            last_fence = caller.fence
            tally.is_granted(number, line=number % AGENTS)
            time.sleep(HOLD_S)
            others = {numbers[each] for each, _ in poller.poll(0)} - leaving
            see("nobody else is granted meanwhile", not others)
            caller.send("DELETE", "crowd")
            leaving.add(number)


class Crowd(Hazard):
    """100 callers want one key 1,000 times in all; without a pause 200 times, for it takes so long.
    The order of the holders and the costs of the servers are judged; the speed is not."""

    system = "`SET NX PX` again and again, with a pause or none"
    flaw = "later callers are served first; without a pause each grant costs a hundred commands"
    here = "one contender per agent, each lock handed on: fewer than ten commands a grant"

    world = {"limits": {"max_ttl": "60s"}}  # so that no lease ends while the queues form
    PAUSE_S = 0.1
    COMMANDS = 10  # for a grant, at the most

    def on_redis(self, stage):
        for pause_s, grants in (0, GRANTS // 5), (self.PAUSE_S, GRANTS):
            tally = Tally(f"polls with {1000 * pause_s:.0f} ms of pause")
            before = self.commands(stage, "set", "del")
            poll(stage, tally, pause_s, grants)
            each = (self.commands(stage, "set", "del") - before) / grants
            self.figures.append(f"{tally}, {each:.1f} commands per grant")
            see("many are overtaken", tally.overtaken > grants / 10)
            if not pause_s:
                see("a grant costs many commands", each > self.COMMANDS)

    def on_lockagent(self, stage):
        tally, before = Tally("lockagent"), self.commands(stage, "evalsha")
        stand_in_line(stage, tally)
        each = (self.commands(stage, "evalsha") - before) / GRANTS
        self.figures.append(f"{tally}, {each:.1f} commands per grant")
        see("no one is overtaken at its agent", tally.overtaken == 0)
        see("a grant costs few commands", each < self.COMMANDS)

    @staticmethod
    def commands(stage, *names):
        """How many of these all masters were sent, or called in scripts."""
        calls = re.findall(
            r"cmdstat_(\w+):calls=(\d+)", "".join(stage.ask_all("INFO", "commandstats"))
        )
        return sum(int(count) for name, count in calls if name in names)


class OppositeOrders(Hazard):
    """The runs renew their keys, so that no lease would end a circle of theirs."""

    system = "`SET NX PX` on two keys, in opposite orders"
    flaw = "each of two clients has one key and waits for the other: both stop until a lease ends"
    here = "`lockagent run A B` takes the keys in one order, and each gets both"

    def on_redis(self, stage):
        a, b = stage.redis(), stage.redis()
        began_us = self.now_us(a)
        see("A has the first key", a("SET", "two/1", "A", "NX", "PX", SHORT_MS) == "OK")
        see("B has the second one", b("SET", "two/2", "B", "NX", "PX", LONG_MS) == "OK")
        while b("SET", "two/1", "B", "NX", "PX", LONG_MS) is None:
            see("A is refused B's key", a("SET", "two/2", "A", "NX", "PX", LONG_MS) is None)
        see("B was refused until A's lease ended", self.now_us(b) - began_us >= 1000 * SHORT_MS)
        see("A still has neither", a("SET", "two/2", "A", "NX", "PX", LONG_MS) is None)

    def on_lockagent(self, stage):
        holder = stage.holder("two/2")
        self.run(stage, "A", "two/1", "two/2")
        await_sight("A waits for the second key", lambda: self.is_awaited(stage, "two/2"))
        see("A has the first one", stage.masters_with("two/1"))
        self.run(stage, "B", "two/2", "two/1")
        await_sight("B waits for the first one", lambda: self.is_awaited(stage, "two/1"))
        see("the second key is released", holder.delete("two/2") in RELEASED)
        for name in "A", "B":
            process = stage.processes[name]
            await_sight(f"{name} ends", lambda process=process: process.poll() is not None)
            see(f"{name} had both: {process.returncode}", process.returncode == 0)

    @staticmethod
    def now_us(client):
        seconds, us = client("TIME")
        return 1000000 * int(seconds) + int(us)

    @staticmethod
    def run(stage, name, *keys):
        words = [f"{stage.build}/lockagent", "run", "-c", stage.path("agent0.yaml")]
        stage.start(name, [*words, "-t", f"{LONG_MS}ms", *keys, "--", "sleep", "0.1"])

    @staticmethod
    def is_awaited(stage, key):
        listening = stage.ask_all("PUBSUB", "NUMSUB", f"lockagent:channel:lock:{key}")
        return all(int(count) > 0 for _, count in listening)


ROWS = [
    SubscribedTooLate,
    DeadHead,
    ReadersPass,
    Crowd,
    OppositeOrders,
]
