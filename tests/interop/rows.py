"""How other clients and agents treat each other's keys, one row after the other.

A row is played with every client, on masters that agents use under the default prefix. It has the
text of its cell of the table, and fails if something else is seen."""
import signal
import time

from stage import (
    LEASE_MS,
    LONG_MS,
    MASTERS,
    REFUSED,
    RELEASED,
    SHORT_MS,
    SOON_S,
    Stage,
    await_sight,
    bucket_of,
    see,
)
from means import AGENTS, TTL_MS
from world import World

GONE = (404, 410, 412)  # of a token that is no holder's any more


class Shared(Stage):
    """Agents that use the first `used` of the masters, on which other clients lock too."""

    def __init__(self, build, used=MASTERS):
        self.used = used
        super().__init__(build)

    def configure(self, agent, masters, limits):
        super().configure(agent, masters[: self.used], limits)

    def policies(self, agent):
        common = f"ttl: {TTL_MS}ms, retry: {self.retry}"
        if self.used == 1:
            common += ", algorithm: single"
        kinds = {"rw/*": "kind: rw", "two/*": "permits: 2", "fair/*": "order: fair", "*": None}
        return [
            f"{{match: '{match}', {common}{kind and ', ' + kind or ''}}}"
            for match, kind in kinds.items()
        ]

    def launch_agents(self, limits):
        World.launch_agents(self, limits)
        for agent in range(AGENTS):
            await_sight("all vote", lambda agent=agent: self.voting(agent) == self.used)

    def on_masters(self, *words):
        return self.ask_all(*words, masters=range(self.used))

    def foreign(self, agent):
        lines = str(self.ask(agent, "GET", "/metrics")[1]).splitlines()
        name = "lockagent_master_foreign_keys_total{"
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))


def granted(client, key, ttl_ms=LONG_MS):
    see(f"{client.name} is granted", client.lock(f"lock:{key}", ttl_ms) is not None)


def refused(client, key):
    see(f"{client.name} is refused", client.lock(f"lock:{key}", LONG_MS) is None)


def await_release(stage, key):
    lock = ("EXISTS", f"lock:{key}")
    await_sight("no master has the key", lambda: not any(stage.on_masters(*lock)))


def it_holds(stage, client):
    granted(client, "its")
    caller = stage.caller()
    see("the caller is told that it is held", caller.decided("POST", "its") == 409)
    see(f"and nobody is named: {caller.answer}", caller.answer["holder"] in (None, ""))
    looker = stage.caller(1)
    await_sight("a look shows that it is held", lambda: looker.state("its") == "held")
    see("it releases", client.unlock("lock:its"))


def agent_holds(stage, client):
    holder = stage.holder("ours")
    refused(client, "ours")
    see("the holder still has it", holder.decided("PUT", "ours") == 200)
    see("and releases", holder.delete("ours") in RELEASED)
    await_release(stage, "ours")
    granted(client, "ours")


def agent_waits(stage, client):
    granted(client, "next")
    waiter = stage.caller()
    waiter.send("POST", "next", ttl=f"{LONG_MS}ms", wait=f"{SOON_S:.0f}s")
    see("it is not granted yet", not waiter.is_answered(LEASE_MS / 1000))
    see("it releases", client.unlock("lock:next"))
    see("the waiter is granted", waiter.status() == 201)


def late_release(stage, client):
    granted(client, "late", SHORT_MS)
    holder = stage.holder("late")
    see("its release is refused", not client.unlock("lock:late"))
    see("the agent's caller still has it", holder.decided("PUT", "late") == 200)


def agents_late_release(stage, client):
    late = stage.holder("lapsed", ttl_ms=SHORT_MS)
    for look in [stage.redis(master) for master in range(stage.used)]:
        stage.await_expiry(look, "lock:lapsed")
    granted(client, "lapsed")
    see("the late renewal is refused", late.put("lapsed") in GONE)
    see("and the late release", late.delete("lapsed") in GONE)
    see("it still has the lock", client.unlock("lock:lapsed"))


def number(stage, client):
    holder, fence = stage.holder("numbered"), ("ZSCORE", bucket_of("numbered"), "n")
    number_held = str(holder.fence)
    see("it is released", holder.delete("numbered") in RELEASED)
    await_release(stage, "numbered")
    before = stage.on_masters(*fence)
    see("a number is stored", number_held in before)
    granted(client, "numbered")
    see("its grant leaves the numbers as they are", stage.on_masters(*fence) == before)


def ticket(stage, client):
    holder, waiter = stage.holder("fair/line", agent=0), stage.caller(1)
    waiter.send("POST", "fair/line", ttl=f"{LONG_MS}ms", wait=f"{SOON_S:.0f}s")
    line = ("HLEN", "lockagent:ticket:lock:fair/line")
    await_sight("the waiter has its ticket", lambda: stage.on_masters(*line) == [1] * stage.used)
    stage.signal("agent1", signal.SIGSTOP)
    try:
        see("the holder releases", holder.delete("fair/line") in RELEASED)
        see("another caller is refused", stage.caller(2).post("fair/line") in REFUSED)
        await_release(stage, "fair/line")
        granted(client, "fair/line")
    finally:
        stage.signal("agent1", signal.SIGCONT)
    # An attempt that was out when its agent was stopped has received no quorum: 503, and no grant.
    heard = waiter.status() if waiter.is_answered(LEASE_MS / 1000) else None
    see(f"the waiter is not granted: {heard} {waiter.answer}", heard in (None, 503))


def validity(_, client):
    told_ms = client.lock("lock:valid", LONG_MS)
    see("it is granted", told_ms is not None)
    if client.validity:
        see(f"{told_ms} ms of {LONG_MS} ms are less by 1 %", 0 < told_ms <= 0.99 * LONG_MS)
    else:
        see("it tells none", told_ms == 0)


def readers(stage, client):
    before = stage.foreign(0)
    reader = stage.holder("rw/read", mode="read")
    refused(client, "rw/read")
    see("the reader still reads", reader.decided("PUT", "rw/read") == 200)
    granted(client, "rw/its")
    see("a reader is refused", stage.caller().post("rw/its", mode="read") in REFUSED)
    await_sight("a foreign key is counted", lambda: stage.foreign(0) > before)
    see("it still has the lock", client.unlock("lock:rw/its"))


def semaphore(stage, client):
    for _ in range(2):
        stage.holder("two/slots")
    see("a third is refused", stage.caller(1).post("two/slots") in REFUSED)
    granted(client, "two/slots")


def all_masters(stage, client):
    """On agents that use all masters, for any client."""
    granted(client, "spread")
    if client.masters == MASTERS:
        see("the caller is refused", stage.caller().post("spread") in REFUSED)
    else:
        stage.holder("spread")


def forgotten(stage, client):
    began_ms, holder = 1000 * time.monotonic(), stage.holder("forgotten")
    see("the masters forget", stage.on_masters("FLUSHALL") == ["OK"] * stage.used)
    see("a caller is refused", stage.caller(1).post("forgotten") == 503)
    await_release(stage, "forgotten")  # its attempt may not be undone yet (R5)
    granted(client, "forgotten")
    held_ms = 1000 * time.monotonic() - began_ms
    see("the caller is valid still", held_ms < holder.answer["valid_for_ms"])


def always(cell):
    return lambda client: cell


# the played row, the text of its cell; the row in which the masters forget is the last
ROWS = [
    ("it holds, a caller asks an agent", always("409 `lock_held`, no label"), it_holds),
    ("an agent's caller holds, it asks", always("refused"), agent_holds),
    (
        "it releases while a caller waits at an agent",
        always("granted at the agent's next try"),
        agent_waits,
    ),
    ("it releases too late, an agent's caller has it", always("changes nothing"), late_release),
    (
        "an agent's caller is too late, it has the key",
        always("404, 410 or 412"),
        agents_late_release,
    ),
    (
        "validity that it tells its caller",
        lambda client: "1 % less than the lease" if client.validity else "**none**",
        validity,
    ),
    ("fencing: the number after its grant", always("**unchanged**"), number),
    (
        "`order: fair`: a ticket of a waiter at an agent",
        always("**passed over**"),
        ticket,
    ),
    ("`kind: rw`: readers hold, it asks", always("refused"), readers),
    ("`permits`: all slots are held, it asks", always("**granted**"), semaphore),
    ("guard: all masters forgot, a caller holds, it asks", always("**granted**"), forgotten),
]
SPREAD = (
    "it holds, agents ask all five masters",
    lambda client: "refused" if client.masters == MASTERS else "**granted**",
    all_masters,
)
