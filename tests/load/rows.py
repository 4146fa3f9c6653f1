"""The rows of the load suite: the actions of strangers and masters while holders hold."""
import contextlib
import signal
import threading

from world import Flood, Strangers, request, wait_for

LONG_KEYS = 1000
READERS = 1000
FOLLOWED = 1000
CROWDED = 200
# A token that no agent has given.
UNKNOWN = "Lock-Token: 0123456789abcdef0123456789abcdef01234567.1795325692239525"

ROWS = []


class Row:
    """`work`: a context, in which the work goes on. `prepare` is called before the holders come.
    `host`: the address that the holders use. `least`: answers and streams; fewer mean that the
    strangers did nothing. `forbids`: a text that must not be in the agent's log. `more`: the row is
    left out of the short form. `seconds`: for how long the work goes on at the least. The other
    arguments are the world's.
    """

    def __init__(
        self,
        name,
        work,
        host="127.0.0.1",
        prepare=None,
        least=100,
        forbids=None,
        more=False,
        seconds=0.0,
        **world,
    ):
        self.name, self.work, self.host, self.prepare = name, work, host, prepare
        self.least, self.forbids, self.more, self.world = least, forbids, more, world
        self.seconds = seconds


def row(name, **more):
    def add(work):
        ROWS.append(Row(name, contextlib.contextmanager(work), **more))
        return work

    return add


def strangers(name, connections, *requests, options=None, **more):
    """A row in which only strangers work."""

    @row(name, **more)
    def work(world):
        with Strangers(world, connections, *requests, **(options or {})):
            yield


# ---- masters


for kind in "key-updates", "hello-requests":

    @row(f"a master floods TLS {kind}", hostile=kind)
    def tls_flood(world):
        with Flood(world):
            yield


@contextlib.contextmanager
def meanwhile(work):
    """Runs `work(ended)` in a thread; `ended` is an event that is set in the end."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=(ended,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)


@row("masters answer ever later", late=2, forbids="clock is off", seconds=8.0)
def late_masters(world):
    """The delay grows more slowly than time goes on, so the masters are never silent for long."""

    def delay(ended):
        delay_ms = 0
        while not ended.wait(0.1):
            delay_ms = 0 if delay_ms > 3000 else delay_ms + 90
            world.tell_proxy(f"all down.delay_us={delay_ms * 1000}")

    with Strangers(world, 20, *pair("busy/{n}"), pace=20), meanwhile(delay):
        yield


@row("two masters stand still in bursts")
def masters_in_bursts(world):
    def stop_and_go(ended):
        while not ended.wait(0.25):
            for master in world.masters[:2]:
                master.send(signal.SIGSTOP)
            ended.wait(0.7)
            for master in world.masters[:2]:
                master.send(signal.SIGCONT)

    with Strangers(world, 20, *pair("busy/{n}"), pace=20), meanwhile(stop_and_go):
        yield


# ---- strangers


def keys_of_another_agent(world, name, step, end):
    """Another agent has each `step`th key NAME/n below `end`."""
    script = (
        f"for i = 0, {end - 1}, {step} do redis.call('SET', 'lock:{name}/' .. i,"
        f" '{'0' * 40}:01234567:1:', 'PX', 120000) end return 1"
    )
    for master in world.masters:
        master.ask(f'EVAL "{script}" 0')


def pair(key, terms="ttl=5s"):
    """A lock is taken and released."""
    return (
        request(f"POST /locks/{key}?{terms}"),
        request(f"DELETE /locks/{key}", "Lock-Token: {token}"),
    )


HELD = request("POST /locks/hold/0")
strangers("acquires of held keys", 4600, HELD, more=True)
strangers("acquires of free keys", 4600, *pair("free/{n}"), more=True)
strangers("acquires of held and free keys", 4600, HELD, *pair("free/{n}"))
strangers("acquires that wait", 4600, request("POST /locks/hold/0?wait=5s"), least=0)
strangers("acquires that time out at once", 3000, request("POST /locks/hold/0?wait=1s"), more=True)
strangers("leases that run out", 1000, request("POST /locks/out/{n}/{i}?ttl=200ms"), more=True)
strangers("hand-overs", 1000, *pair("one", "ttl=5s&wait=60s"), more=True)
strangers(
    "the same idempotency key again",
    1000,
    request("POST /locks/again/{n}?ttl=5s", "Idempotency-Key: 0123456789abcdef-{n}"),
    more=True,
)
strangers(
    "bound locks that come and go",
    500,
    request("POST /locks/bound/{n}?ttl=5s&bind=connection"),
    options={"fresh": True},
    more=True,
)


@row("127.0.0.1 is full of waiters", host="::1", least=0)
def full_of_waiters(world):
    with Strangers(world, 4000, request("POST /locks/hold/0?wait=60s")):
        with Strangers(world, 600, request("POST /locks/free/{n}/{i}?ttl=200ms")):
            yield


strangers("reads", 3000, request("GET /locks/hold/0"))
strangers("reads of many keys", 3000, request("GET /locks/free/{n}"), more=True)
strangers("unknown tokens: PUT", 3000, request("PUT /locks/free/{n}", UNKNOWN))
strangers("unknown tokens: DELETE", 3000, request("DELETE /locks/free/{n}", UNKNOWN), more=True)
strangers(
    "watches",
    3000,
    *(request(f"GET /locks/hold/{i}?watch") for i in range(16)),
    options={"spread": True},
    least=0,
    more=True,
)
WATCH = request("GET /locks/hold/0?watch")
strangers("watches that nobody reads", 3000, WATCH, options={"mute": True}, least=0, more=True)
strangers("watches that come and go", 500, WATCH, options={"fresh": True}, more=True)
GREEDY = request("PUT /locks/greedy/{n}", "Lock-Token: {token}")
strangers(
    "holders that renew without a rest",
    1000,
    request("POST /locks/greedy/{n}?ttl=10s"),
    *[GREEDY] * 14,
    more=True,
)
strangers(
    "as many locks as allowed, renewed by the agent",
    500,
    request("POST /locks/many/{n}/{i}?ttl=1s&renew=agent&max_hold=1m"),
)


def followed_keys(world):
    """Another agent has half of the keys that are followed."""
    keys_of_another_agent(world, "followed", 2, FOLLOWED)


@row("followers of 1,000 keys", prepare=followed_keys, least=0)
def followers(world):
    """The agent looks at each free key about once a second. Some are taken and released."""

    def all_are_followed():
        return world.metric("followed_keys") == FOLLOWED

    with Strangers(world, FOLLOWED, request("GET /locks/followed/{n}?watch=key")):
        wait_for("all keys are followed", all_are_followed)
        with Strangers(world, 20, *pair("followed/{n}1"), pace=20):
            yield
        wait_for("all keys are still followed", all_are_followed)


strangers("unknown tokens for held keys", 3000, request("PUT /locks/hold/0", UNKNOWN), more=True)


def foreign_keys(world):
    """Each caller that waits asks the masters again and again."""
    keys_of_another_agent(world, "foreign", 1, 4000)


strangers(
    "waits for locks of another agent",
    4000,
    request("POST /locks/foreign/{n}?wait=60s"),
    prepare=foreign_keys,
    least=0,
    more=True,
)


@row("a crowd at three agents", agents=3)
def crowd_at_three_agents(world):
    """Together they could have more rounds in flight than the masters answer in a node_timeout."""
    with contextlib.ExitStack() as crowd:
        for port in world.agent_ports * 5:
            waiting = pair("crowd/{n}", "ttl=5s&wait=60s")
            crowd.enter_context(Strangers(world, CROWDED, *waiting, port=port))
        yield


# ---- kinds of locks

KINDS = """policies:
  - {match: "permits-*", permits: 64}
  - {match: "rw-*", kind: rw}
  - {match: "fair-*", order: fair}
"""


def readers(world):
    world.take(READERS, "rw-0?mode=read&ttl=60s")


def permits(world):
    world.take(64, "permits-0?ttl=60s")


for name, key, terms in (
    ("permits", "permits-1", "ttl=5s&wait=10s"),
    ("readers and writers", "rw-1", "mode=read&ttl=5s&wait=10s"),
    ("first come, first served", "fair-1", "ttl=5s&wait=10s"),
):
    strangers(f"hand-overs: {name}", 1000, *pair(key, terms), policies=KINDS, more=True)
strangers(
    "acquires of taken permits",
    3000,
    request("POST /locks/permits-0"),
    prepare=permits,
    policies=KINDS,
)
strangers(
    "reads of taken permits",
    3000,
    request("GET /locks/permits-0"),
    prepare=permits,
    policies=KINDS,
)
strangers(
    "reads of a key with 1,000 readers",
    100,
    request("GET /locks/rw-0"),
    prepare=readers,
    policies=KINDS,
    least=20,
)


# ---- pages


def long_keys(world):
    world.take(LONG_KEYS, "k" * 496 + "{i:04}?ttl=60s")


def wide_keys(world):
    world.take(LONG_KEYS, "%22" * 496 + "{i:04}?ttl=60s")  # each is `&quot;` on a page


MANY_POLICIES = "policies:\n" + "".join(
    f"  - match: 'policy-{i}-*'\n    ttl: 10s\n" for i in range(60)
)
LIST = request("GET /locks?limit=1000")
strangers("lists", 100, LIST, prepare=long_keys, least=20)
strangers(
    "lists, each with another cursor",
    100,
    request("GET /locks?limit=1000&cursor=h{n}"),
    prepare=long_keys,
    least=20,
    more=True,
)
strangers("status pages", 100, request("GET /"), prepare=long_keys, least=20)
strangers(
    "status pages, each filtered", 100, request("GET /?key={n}"), prepare=long_keys, more=True
)
strangers("metrics", 100, request("GET /metrics"), prepare=long_keys, policies=MANY_POLICIES)


@row("lists of waiters", least=20)
def lists_of_waiters(world):
    key = "w" * 496
    with Strangers(
        world,
        3900,
        request(f"POST /locks/{key}{{n}}?wait=60s&ttl=60s"),
        request(f"POST /locks/{key}0?wait=60s"),
    ):
        with Strangers(world, 100, request("GET /locks?limit=1000&cursor=w0")):
            yield


strangers("descriptions", 400, request("GET /openapi.yaml"), more=True)
strangers("health", 1000, request("GET /readyz"))
strangers("unread pages", 400, request("GET /"), prepare=wide_keys, options={"mute": True}, least=0)
strangers("unread lists", 400, LIST, prepare=wide_keys, options={"mute": True}, least=0, more=True)


@row("unread pages of the admin listener", prepare=wide_keys, least=0)
def unread_admin_pages(world):
    with Strangers(world, 120, request("GET /"), port=world.admin_port, mute=True):
        yield


@row("pages and metrics of the admin listener", prepare=long_keys, least=20, more=True)
def admin_pages(world):
    asked = request("GET /"), request("GET /metrics")
    with Strangers(world, 120, *asked, port=world.admin_port, spread=True):
        yield


# ---- connections and bodies


def json_body(text):
    return request("POST /locks/free/{n}", "Content-Type: application/json", body=text)


SPACES = '{"ttl": "5s",' + " " * 4000 + '"label": "x"}'
NESTED = '{"label": ' + "[" * 2000 + "]" * 2000 + "}"
strangers("large JSON bodies", 1000, json_body(SPACES), json_body(NESTED), options={"spread": True})
strangers(
    "slow bodies",
    3000,
    request("POST /locks/hold/0", body="label=" + "x" * 4000),
    options={"trickle": 200},
    least=0,
    more=True,
)
strangers(
    "slow headers",
    3000,
    request("GET /livez", "X: " + "x" * 4000),
    options={"trickle": 200},
    least=0,
    more=True,
)
strangers(
    "a connection for each request", 200, request("GET /livez"), options={"fresh": True}, more=True
)
strangers("a connection for each acquire", 200, HELD, options={"fresh": True}, more=True)


strangers(
    "requests that are refused",
    3000,
    request("GET /nothing"),
    request("POST /locks/free/{n}?ttl=5"),
    request("PATCH /locks/free/{n}"),
    options={"spread": True},
)


@row("reloads", policies=MANY_POLICIES, least=0, more=True)
def reloads(world):
    def reload(ended):
        while not ended.wait(0.002):
            world.agent.send(signal.SIGHUP)

    with meanwhile(reload):
        yield
