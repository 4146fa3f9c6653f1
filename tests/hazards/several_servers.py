"""Recipes on several redis-servers, and on one with a replica: the effects of a failure of one."""
import os
import signal

from stage import (
    AGENTS,
    LEASE_MS,
    LONG_MS,
    MASTERS,
    REFUSED,
    RELEASED,
    SOON_S,
    Caller,
    Hazard,
    await_sight,
    bucket_of,
    see,
)

QUORUM = MASTERS // 2 + 1


def await_guard(stage, caller, *keys):
    """Until agent 1 sees that one master has no vote; `caller` of it is refused all the while."""

    def is_guarded():
        guarded = stage.guarded(agent=1)
        for key in keys:
            see(f"B is refused {key}", caller.post(key, ttl="60s") in REFUSED)
        return guarded == 1

    await_sight("one master has no vote", is_guarded)


class Replica:
    """Of the first master, through a link of the proxy: it falls behind when that is cut."""

    def __init__(self, stage):
        self.stage, self.path = stage, stage.path("replica.sock")
        self.link = int(stage.links(masters=[0]).split(",")[-1])  # the last agent's
        words = ["--port", "0", "--unixsocket", self.path, "--dir", stage.folder, "--save", ""]
        words += ["--replicaof", "127.0.0.1", stage.link_ports[self.link]]
        master = stage.redis(0)
        master("CONFIG", "SET", "repl-diskless-sync-delay", "0")
        stage.start("replica", ["redis-server", *words])
        await_sight("it is in step", lambda: "state=online" in master("INFO", "replication"))

    def freeze(self):
        self.stage.weather(self.link, hole=1)

    def promote(self):
        """It serves at the address of the master, which is dead. Returns a client of it."""
        self.stage.kill_masters([0])
        os.rename(self.path, self.stage.socket(0))
        promoted = self.stage.redis(0)
        see("it is promoted", promoted("REPLICAOF", "NO", "ONE") == "OK")
        self.stage.weather(self.stage.links(masters=[0]), refuse=0, hole=0)
        return promoted


class AllNeeded(Hazard):
    system = "`SET NX PX` on all of three"
    flaw = "with one of them dead no client gets a lock"
    here = "most masters are enough, and two of five may be dead"
    apart = True

    def on_redis(self, stage):
        clients = [stage.redis(server) for server in range(3)]
        stage.kill_masters([2])
        for attempt in range(10):
            taken = [self.take(client, f"all{attempt}") for client in clients]
            see("A gets those that live, and gives up", sum(taken) == 2 and not all(taken))

    @staticmethod
    def take(client, key):
        try:
            return client("SET", key, "A", "NX", "PX", LEASE_MS) == "OK"
        except ConnectionError:
            return False

    def on_lockagent(self, stage):
        stage.kill_masters([1, 2])
        stage.holder("all", agent=0)


class OneAfterTheOther(Hazard):
    system = "`SET NX PX` on five, one after the other"
    flaw = "a frozen server takes longer than the lease: the lock is over when it is granted"
    here = "all are asked at once, and validity counts from before the first byte"

    FROZEN = MASTERS - 1

    def on_redis(self, stage):
        a, b = self.clients(stage), self.clients(stage)
        stage.signal(f"master{self.FROZEN}", signal.SIGSTOP)
        try:
            see("A gets most of them", self.take(a, "A") >= QUORUM)
            see("so does B", self.take(b, "B") >= QUORUM)
        finally:
            stage.signal(f"master{self.FROZEN}", signal.SIGCONT)

    @staticmethod
    def clients(stage):
        return [stage.redis(server, timeout_s=2 * LEASE_MS / 1000) for server in range(MASTERS)]

    @staticmethod
    def take(clients, name):
        """How many are got; no release and no other look at the clock, as in the recipe."""
        got = 0
        for client in clients:
            try:
                got += client("SET", "turn", name, "NX", "PX", LEASE_MS) == "OK"
            except TimeoutError:
                pass
        return got

    def on_lockagent(self, stage):
        stage.signal(f"master{self.FROZEN}", signal.SIGSTOP)
        try:
            a = stage.holder("turn", agent=0)
            see("A's lock is valid", a.answer["valid_for_ms"] > 0)
            kept = stage.ask_all("EXISTS", "lock:turn", masters=range(self.FROZEN))
            see("most masters have it", sum(kept) >= QUORUM)
            see("B is refused", stage.caller(1).post("turn") in REFUSED)
        finally:
            stage.signal(f"master{self.FROZEN}", signal.SIGCONT)


class NothingUndone(Hazard):
    system = "`SET NX PX` on five, and a failed attempt is kept"
    flaw = "three clients get two, two and one, and none of them a majority until leases end"
    here = "a failed attempt is undone at once, and one of the three is granted"

    REACHED = ((0, 1), (2, 3), (4,))  # first, by each of the three

    def on_redis(self, stage):
        three = [[stage.redis(server) for server in range(MASTERS)] for _ in self.REACHED]
        for number, reached in enumerate(self.REACHED):
            for server in reached:
                self.take(three[number][server], number)
        for _ in range(10):
            for number, clients in enumerate(three):
                for client in clients:
                    self.take(client, number)
                see("nobody has most of them", self.count(clients, number) < QUORUM)

    @staticmethod
    def take(client, number):
        client("SET", "split", number, "NX", "PX", LONG_MS)

    @staticmethod
    def count(clients, number):
        return sum(client("GET", "split") == str(number) for client in clients)

    def on_lockagent(self, stage):
        for agent, reached in enumerate(self.REACHED):
            others = [master for master in range(MASTERS) if master not in reached]
            stage.weather(stage.links(agents=[agent], masters=others), up_hole=1)
        waiting = [stage.caller(agent) for agent in range(len(self.REACHED))]
        for caller in waiting:
            caller.send("POST", "split", ttl=f"{LONG_MS}ms", wait=f"{SOON_S:.0f}s")
        # Each master numbers its grants, so that all have granted to some caller.
        await_sight(
            "each master grants it to one of the three",
            lambda: all(stage.ask_all("EXISTS", bucket_of("split"))),
        )
        see("none of the three has it", not any(caller.is_answered() for caller in waiting))
        stage.clear_weather()
        while waiting:
            await_sight("one is answered", lambda: any(map(Caller.is_answered, waiting)))
            granted = next(filter(Caller.is_answered, waiting))
            see("it is granted", granted.status() == 201)
            waiting.remove(granted)
            see("the others are not", not any(caller.is_answered(0.1) for caller in waiting))
            see("it releases", granted.delete("split") in RELEASED)


class ForgottenMajority(Hazard):
    system = "most of five, and one restarts empty"
    flaw = "its vote counts for the next one as well: two holders"
    here = "it is guarded: no vote until every lease that it may have forgotten is over"
    apart = True
    world = {"limits": {"max_ttl": "60s"}}

    def on_redis(self, stage):
        for server in (0, 1, 2):
            see("A gets three", self.take(stage.redis(server), "A"))
        stage.kill_masters([2])
        stage.restart_masters([2], empty=True)
        got = [self.take(stage.redis(server), "B") for server in range(MASTERS)]
        see("B gets three as well", got == [False, False, True, True, True])
        kept = [stage.redis(server)("GET", "most") for server in (0, 1)]
        see("nobody has asked A", kept == ["A", "A"])

    @staticmethod
    def take(client, name):
        return client("SET", "most", name, "NX", "PX", LONG_MS) == "OK"

    def on_lockagent(self, stage):
        stage.weather(stage.links(agents=[0], masters=[3, 4]), hole=1)
        a, b = stage.holder("most", agent=0, ttl_ms=60000), stage.caller(1)
        see("A gets three", a.answer["nodes"]["granted"] == 3)
        stage.kill_masters([2])
        stage.restart_masters([2], empty=True)
        await_guard(stage, b, "most")
        numbered = stage.ask_all("EXISTS", bucket_of("most"))
        see("it granted to nobody, and the other two to B", numbered == [1, 1, 0, 1, 1])


class PromotedReplica(Hazard):
    system = "`SET NX PX` on a master with a replica, `WAIT` or not"
    flaw = "the promoted replica never received the lock: two holders"
    here = "the other masters have it, and the promoted one has no vote"
    apart = True
    world = {"group": "durable: false", "limits": {"max_ttl": "60s"}, "trusted": True}

    def on_redis(self, stage):
        a, replica = stage.redis(0), Replica(stage)
        replica.freeze()
        for key in "plain", "waited":
            see(f"A has {key}", a("SET", key, "A", "NX", "PX", LONG_MS) == "OK")
        see("no replica has it, which A ignores", a("WAIT", 1, LEASE_MS // 3) == 0)
        b = replica.promote()
        for key in "plain", "waited":
            see(f"B has {key} too", b("SET", key, "B", "NX", "PX", LONG_MS) == "OK")

    def on_lockagent(self, stage):
        replica = Replica(stage)
        replica.freeze()
        a, b = stage.holder("all", agent=0, ttl_ms=60000), stage.caller(1)
        stage.weather(stage.links(agents=[0], masters=[3, 4]), hole=1)
        few = stage.holder("few", agent=0, ttl_ms=60000)
        see("of another lock A gets three", few.answer["nodes"]["granted"] == 3)
        promoted = replica.promote()
        see("it has neither", promoted("EXISTS", "lock:all", "lock:few") == 0)
        await_guard(stage, b, "all", "few")
        see("B is told that it is held", b.decided("POST", "all") == 409)
        stage.weather(stage.links(agents=[0], masters=[3, 4]), hole=0)
        await_sight("A still has the lock", lambda: a.put("all") == 200)


class WaitIgnored(Hazard):
    system = "`SET NX PX` and `WAIT`, whose count is ignored"
    flaw = "the master alone has the lock, and the promoted replica does not: two holders"
    here = (
        "a lock on too few replicas is not granted, and a promoted replica grants nothing at first"
    )
    apart = True
    world = {
        "replicas": 2,
        "group": "durable: false, replicas: {ack: 1, timeout: 100ms}",
        "policy": "algorithm: single",
        "limits": {"max_ttl": "60s"},
        "trusted": True,
    }

    def on_redis(self, stage):
        a = stage.redis()
        self.cut_off(stage)
        see("A has it", a("SET", "job", "A", "NX", "PX", LONG_MS) == "OK")
        see("no replica has it, which A ignores", a("WAIT", 1, LEASE_MS // 3) == 0)
        b = self.promote(stage)
        see("B has it too", b("SET", "job", "B", "NX", "PX", LONG_MS) == "OK")

    def on_lockagent(self, stage):
        a, b = stage.holder("kept", agent=0, ttl_ms=60000), stage.caller(1)
        # One replica was enough for the grant, and it may have been the other one.
        heir = stage.redis(1)
        await_sight("the next master has what was granted", lambda: heir("EXISTS", "lock:kept"))
        self.cut_off(stage)
        refused = stage.caller(0)
        self.await_refusal(refused, "unreplicated")
        await_sight("nothing is left", lambda: not stage.redis()("EXISTS", "lock:job"))
        see("a renewal is refused too", a.put("kept") == 503)
        promoted = self.promote(stage)
        see("it has what was granted before", promoted("EXISTS", "lock:kept", "lock:job") == 1)
        await_guard(stage, b, "job", "kept")
        self.await_refusal(b, "guarded")
        await_sight("A still has the lock", lambda: a.put("kept") == 200)

    @staticmethod
    def await_refusal(caller, why):
        """Until the master is in time, and says why; `caller` is refused all the while."""

        def is_told_why():
            see("it is refused", caller.post("job", ttl="60s") == 503)
            return caller.answer["nodes"][why] == 1

        await_sight(f"the master is {why}", is_told_why)

    @staticmethod
    def cut_off(stage):
        """Both replicas: they follow by the last agent's link."""
        stage.weather(stage.links(agents=[AGENTS - 1], masters=[0]), hole=1)

    @staticmethod
    def promote(stage):
        stage.promote(1)
        stage.weather(stage.links(masters=[0]), hole=0)
        return stage.redis()


ROWS = [
    AllNeeded,
    OneAfterTheOther,
    NothingUndone,
    ForgottenMajority,
    PromotedReplica,
    WaitIgnored,
]
