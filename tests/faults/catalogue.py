"""All faults of the fault suite, in the order of the table in docs/testing.md."""
import contextlib
import signal
import time

import hostile
import layouts
import refusals
import upgrade
from means import (
    AGENTS,
    CONTENDERS,
    GUARD_MS,
    GUESS_MS,
    MASTERS,
    PATIENCE_S,
    RECOVERY_MS,
    TTL_MS,
    Failure,
    eventually,
)
from world import World

FAULT_S, REFUSAL_S = 2.0, 1.2
TTL_S = TTL_MS / 1000
# long enough that a machine that stops for a second loses no hold that a row wants kept
KEPT_TTL_MS = 3 * TTL_MS
KEPT_TTL_S = KEPT_TTL_MS / 1000
BOUND_TTL_MS = (
    10 * TTL_MS
)  # long enough that no lease of a caller that was killed runs out meanwhile
# between two comings of which the earlier one must be served first: a ticket is on the masters by
# then
FAIR_US = 150000

FAULTS = []


def some_masters(count):
    return f"{count} master{'s' * (count > 1)}"


class Fault:
    """`breaks` names the assumption (D1) that the fault breaks: then a second holder is counted and
    is no failure. All other properties must hold, because outside the assumptions the fencing
    number protects the resource. If masters lie (A5), the assumption is broken too, and EXCUSED
    names the properties that are only counted. `minority`: two of five masters are gone, and the
    share of acquires that succeed counts. `orphans`: keys must not outlive their holders.
    `guarded`: masters are guarded afterwards, so grants come later; `guessed`: by a guess, still
    later; `within_ms`: how late they may come without. `more`: another fault of a class that has
    one already. `fair`: no caller is overtaken, over all agents. `stage` is the kind of world, to
    which the remaining arguments go.
    """

    def __init__(
        self,
        name,
        inject,
        breaks=None,
        minority=False,
        orphans=True,
        guarded=False,
        guessed=False,
        more=False,
        fair=False,
        within_ms=RECOVERY_MS,
        stage=World,
        **world,
    ):
        self.name, self.inject, self.breaks, self.minority, self.orphans = (
            name,
            inject,
            breaks,
            minority,
            orphans,
        )
        self.within_ms = within_ms + guarded * GUARD_MS + guessed * GUESS_MS
        self.more, self.stage, self.world = more, stage, world
        self.fair_us = FAIR_US if fair else None


def fault(name, **more):
    def add(inject):
        FAULTS.append(Fault(name, inject, **more))
        return inject

    return add


@fault("none")
def nothing(_world):
    time.sleep(FAULT_S)


# ---- agents


@fault("SIGKILL of an agent")
def agent_killed(world):
    agent = world.agent()
    world.kill(f"agent{agent}")
    time.sleep(world.random.uniform(0.1, 0.6) * TTL_S)
    world.launch_agent(agent)
    world.await_agent(agent)


for stop in (0.5, 1, 2, 3):

    @fault(f"SIGSTOP of an agent, {stop} ttl", more=stop in (1, 3))
    def agent_stopped(world, stop=stop):
        world.pause([f"agent{world.agent()}"], stop * TTL_S)


@fault("SIGKILL of agents with a journal", journal=True, limits={"max_ttl": f"{KEPT_TTL_MS}ms"})
def agents_killed_with_journal(world):
    resumed, token = 0, ""
    for number in range(3):
        agent, key = world.agent(), f"kept/{number}"
        token = world.hold(agent, key, KEPT_TTL_MS)
        # Killed before it has marked the answer as written, the agent would not renew the hold.
        world.expect_held(agent, key, token)
        world.kill(f"agent{agent}")
        time.sleep(world.random.uniform(0.02, 0.3) * TTL_S)
        world.launch_agent(agent)
        world.await_agent(agent)
        resumed += world.metric(agent, 'lockagent_journal_holds_total{outcome="resumed"}')
        time.sleep(1.1 * KEPT_TTL_S)  # only the watchdog has renewed it since
        world.let_go(agent, key, token)
    if resumed <= 3:
        raise Failure(
            f"under load {resumed:.0f} holds were resumed, and one of each agent's was the runner's"
        )


@fault("SIGKILL of an agent before its answer", journal=True, deadly=True)
def agent_killed_before_answer(world):
    ghosts = [f"ghost/{number}" for number in range(3)]
    for ghost in ghosts:
        agent = world.agent()
        world.kill_before_granting(agent, ghost)
        if len(world.masters_with(ghost)) < 3:
            raise Failure(f"{ghost} was not granted")
        world.launch_agent(agent)
        world.await_agent(agent)
    time.sleep(2 * TTL_S)
    left = {ghost: masters for ghost in ghosts if (masters := world.masters_with(ghost))}
    if left:
        raise Failure(f"nobody has the tokens of {', '.join(left)}, and they are renewed")


@fault(
    "rolling upgrade from an older build, and back",
    stage=upgrade.Fleet,
    limits={"max_ttl": f"{upgrade.KEPT_TTL_MS}ms"},
    contenders=6 * upgrade.FLEET,
    stray_permille=200,
    within_ms=1000 * PATIENCE_S,
)
def rolling_upgrade(world):
    upgrade.roll(world)


# ---- masters


# A majority could carry the locks at every moment, so they must not be lost: a master that was away
# long enough to forget gets them back.
def away_in_turn(world, leave, come_back):
    holds = {agent: world.hold(agent, f"away/{agent}", KEPT_TTL_MS) for agent in range(AGENTS)}
    for master in range(MASTERS):
        leave(master)
        time.sleep(1.2 * KEPT_TTL_S)
        come_back(master)
        world.await_keys(master, [f"away/{agent}" for agent in holds], 2 * KEPT_TTL_S)
        time.sleep(0.5 * KEPT_TTL_S)  # a renewal or more: then it counts
    for agent, token in holds.items():
        world.let_go(agent, f"away/{agent}", token)


@fault(
    "each master killed in turn, back after 1.2 ttl",
    durable=True,
    limits={"max_ttl": f"{KEPT_TTL_MS}ms"},
)
def masters_killed_in_turn(world):
    away_in_turn(
        world,
        lambda master: world.kill_masters([master]),
        lambda master: world.restart_masters([master]),
    )


@fault(
    "each master cut off in turn for 1.2 ttl",
    more=True,
    limits={"max_ttl": f"{KEPT_TTL_MS}ms"},
)
def masters_cut_off_in_turn(world):
    away_in_turn(
        world,
        lambda master: world.weather(world.links(masters=[master]), hole=1),
        lambda master: world.weather(world.links(masters=[master]), hole=0),
    )


for count in (1, 2, 3):

    @fault(
        f"SIGKILL of {some_masters(count)}, back with data",
        durable=True,
        minority=count == 2,
        more=count == 1,
    )
    def masters_killed(world, count=count):
        masters = world.masters(count)
        world.kill_masters(masters)
        time.sleep(FAULT_S)
        world.restart_masters(masters)

    @fault(f"SIGSTOP of {some_masters(count)}", minority=count == 2, more=count == 1)
    def masters_stopped(world, count=count):
        world.pause([f"master{master}" for master in world.masters(count)], FAULT_S)


for count in (1, 3):

    @fault(f"FLUSHALL on {some_masters(count)}", guarded=True, guessed=count == 3)
    def masters_flushed(world, count=count):
        masters = world.masters(count)
        for _ in range(3):
            for master in masters:
                world.ask_master(master, "FLUSHALL")
            time.sleep(FAULT_S / 3)

    @fault(f"empty restart of {some_masters(count)}", guarded=True, guessed=count == 3)
    def masters_emptied(world, count=count):
        masters = world.masters(count)
        world.kill_masters(masters)
        world.restart_masters(masters, empty=True)
        time.sleep(FAULT_S / 2)

    def clocks_jump(world, seconds, count=count):
        masters, offset_ms = world.masters(count), 0
        for each in seconds:
            offset_ms += each * 1000
            for master in masters:
                world.set_clock(master, offset_ms)
            time.sleep(FAULT_S / len(seconds))

    @fault(
        f"clock of {some_masters(count)} forward 1, 10, 60 s",
        breaks="A3",
        clocks=True,
        more=count == 1,
    )
    def clocks_forward(world, jump=clocks_jump):
        jump(world, (1, 10, 60))

    # Stored keys then live that much longer: keys of dead holders stay, which costs other callers
    # only waiting time.
    @fault(
        f"clock of {some_masters(count)} back 1, 10, 60 s",
        clocks=True,
        orphans=False,
        more=count == 1,
    )
    def clocks_back(world, jump=clocks_jump):
        jump(world, (-1, -10, -60))


@fault("FLUSHALL on 3 masters, guard off", breaks="A2", group="guard: off")
def masters_flushed_unguarded(world):
    masters = world.masters(3)
    for _ in range(3):
        for master in masters:
            world.ask_master(master, "FLUSHALL")
        time.sleep(FAULT_S / 3)


@fault("empty restart of 3 masters, guard off", breaks="A2", group="guard: off", more=True)
def masters_emptied_unguarded(world):
    masters_emptied(world, count=3)


# They are not new, and their reports of themselves are right: no reply of a master can show that it
# is behind.
@fault("3 masters back in an older state", breaks="A2", durable=True)
def masters_rolled_back(world):
    masters = world.masters(3)
    world.keep_state(masters)
    time.sleep(FAULT_S / 4)
    world.kill_masters(masters)
    world.restart_masters(masters, older=True)
    time.sleep(FAULT_S / 2)


@fault("clocks of 3 masters run at twice the speed", breaks="A1", clocks=True)
def clocks_fast(world):
    masters, until = world.masters(3), time.monotonic() + FAULT_S
    began = time.monotonic()
    while time.monotonic() < until:
        for master in masters:
            world.set_clock(master, int(1000 * (time.monotonic() - began)))
        time.sleep(0.005)


@fault(
    "an agent with another prefix", breaks="A4", prefixes=["lock:other:"] + ["lock:"] * (AGENTS - 1)
)
def agents_disagree(_world):
    time.sleep(FAULT_S)


for name, roll_out, more in (
    ("a wrong list of masters at a first pod", layouts.wrong_list, {}),
    ("roll-outs of lists that are too fast", layouts.too_fast, {}),
    ("from three masters to five, one by one", layouts.walk, {}),
    ("three lists that start at once", layouts.at_once, {}),
    ("two lists, and no master in common", layouts.nothing_in_common, {"breaks": "A4"}),
):
    FAULTS.append(Fault(name, roll_out, stage=layouts.Layouts, **more))


# ---- refusals of masters: every class of error reply (D5.5), and Redis's treatment of its clients

for refusal in refusals.ALL:
    for count in (1, 3):

        @fault(
            f"{refusal.name} on {some_masters(count)}",
            more=count == 1,
            guarded=refusal.guarded,
            **refusal.world,
        )
        def masters_refuse(world, refusal=refusal, count=count):
            masters = world.masters(count)
            for master in masters:
                refusal.begin(world, master)
            time.sleep(REFUSAL_S)
            for master in masters:
                refusal.end(world, master)


# ---- masters that send replies which no real master sends

for each in hostile.ALL:
    for count in (1, 3):

        @fault(
            f"hostile, {some_masters(count)}: {each.name}",
            breaks="A5" if each.lies else None,
            more=each.lies and count == 1,
        )
        def masters_lie(world, each=each, count=count):
            hostile.play(world, each, world.masters(count), "commands")


for count in (1, 3):

    @fault(f"hostile, {some_masters(count)}: all that to subscribers", more=count == 3)
    def masters_lie_to_subscribers(world, count=count):
        hostile.play(world, hostile.TO_SUBSCRIBERS, world.masters(count), "subscriber")


# ---- the network

for name, count in (("minority", 2), ("majority", 3), ("all", MASTERS)):

    @fault(f"partition from {name} of the masters", minority=count == 2, more=name == "all")
    def partition(world, count=count):
        world.weather(world.links(masters=world.masters(count)), hole=1)
        time.sleep(FAULT_S)


@fault("one agent cut off")
def agent_cut_off(world):
    world.weather(world.links(agents=[world.agent()]), hole=1)
    time.sleep(FAULT_S)


@fault("one-way partition, replies held back")
def replies_held_back(world):
    world.weather(world.links(masters=world.masters(3)), down_hole=1)
    time.sleep(FAULT_S)


@fault("one-way partition, commands held back")
def commands_held_back(world):
    world.weather(world.links(masters=world.masters(3)), up_hole=1)
    time.sleep(FAULT_S)


@fault("flapping partition of the majority")
def flapping(world):
    for _ in range(5):
        links = world.links(masters=world.masters(3))
        world.weather(links, hole=1)
        time.sleep(FAULT_S / 8)
        world.weather(links, hole=0)
        time.sleep(FAULT_S / 12)


# The same without the proxy: the masters are in a network namespace, and the wire to it is cut. TCP
# itself finds out.
for count in (2, 3):

    @fault(
        f"wire to {count} masters cut (ip netns)",
        behind_net=count,
        minority=count == 2,
        more=count == 2,
    )
    def wire_cut(world):
        world.net.cut()
        time.sleep(FAULT_S)
        world.net.join()

    @fault(
        f"no way back from {count} masters (ip netns)",
        behind_net=count,
        minority=count == 2,
        more=count == 2,
    )
    def wire_one_way(world):
        world.net.cut_way_back()
        time.sleep(FAULT_S)
        world.net.join_way_back()


@fault("flapping wire to 3 masters (ip netns)", behind_net=3, more=True)
def wire_flaps(world):
    for _ in range(5):
        world.net.cut()
        time.sleep(FAULT_S / 8)
        world.net.join()
        time.sleep(FAULT_S / 12)


def weather(name, more=False, **settings):
    @fault(name, more=more)
    def blow(world):
        world.weather("all", **settings)
        time.sleep(FAULT_S)


weather("delay of 75 ms +- 50 ms each way", delay_us=75000, jitter_us=50000)
weather("10 % loss", loss_permille=100)
weather("50 % loss", loss_permille=500)
weather("a byte at a time", slice_us=20)
weather("16 KiB/s", more=True, rate_bytes=16384)
weather("resets in the middle of replies", down_reset_permille=50)
weather("resets in the middle of commands", more=True, up_reset_permille=50)


@fault("connections refused by the majority", more=True)
def refused(world):
    world.weather(world.links(masters=world.masters(3)), refuse=1, cut=1)
    time.sleep(FAULT_S)


@fault("over TLS: a byte at a time, resets, 2 masters stopped, a hole", over_tls=True)
def over_tls(world):
    world.weather("all", slice_us=20)
    time.sleep(FAULT_S / 2)
    world.weather("all", slice_us=0, down_reset_permille=50, up_reset_permille=50)
    time.sleep(FAULT_S / 2)
    world.weather("all", down_reset_permille=0, up_reset_permille=0)
    masters = world.masters(2)
    world.pause([f"master{master}" for master in masters], FAULT_S)
    world.weather(world.links(masters=masters), hole=1)
    time.sleep(FAULT_S)


# ---- callers


@fault("callers that vanish", vanish_permille=500)
def callers_vanish(_world):
    time.sleep(FAULT_S)


def request(path):
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()


def ends(connection):
    """True when the other side closes. Earlier replies do not matter."""
    with connection, contextlib.suppress(ConnectionError):
        try:
            while connection.recv(65536):
                pass
        except TimeoutError:
            return False
    return True


@fault("callers that half-close")
def callers_half_close(world):
    until = time.monotonic() + FAULT_S
    while time.monotonic() < until:
        connections = [world.connect(agent) for agent in range(AGENTS) for _ in range(10)]
        for number, connection in enumerate(connections):
            connection.sendall(request(f"/locks/shared/{number % 8}?ttl={TTL_MS}ms&wait=300ms"))
            connection.shutdown(1)
        if not all([ends(connection) for connection in connections]):
            raise Failure("a half-closed connection does not end")


@fault("callers that send a byte a second", limits={"header_timeout": "1500ms"})
def callers_are_slow(world):
    connections = [world.connect(agent) for agent in range(AGENTS) for _ in range(20)]
    for byte in request("/locks/shared/0")[:2]:
        for connection in connections:
            connection.sendall(bytes([byte]))
        time.sleep(1)
    if not all([ends(connection) for connection in connections]):
        raise Failure("a slow request is not ended")


@fault("1,000 idle connections")
def idle_connections(world):
    connections = [world.connect(0) for _ in range(1000)]
    time.sleep(FAULT_S)
    for connection in connections:
        connection.close()


@fault("callers at another agent than their lock's", stray_permille=500)
def callers_stray(world):
    time.sleep(2 * FAULT_S)
    home = {
        event["hold"]: event["agent"]
        for event in world.events(world.history)
        if event["op"] == "acquire"
    }
    strayed = [
        event
        for event in world.events(world.history)
        if event["op"] == "renew" and event["agent"] != home.get(event["hold"])
    ]
    if sum(event["outcome"] == "ok" for event in strayed) < max(20, len(strayed) / 2):
        raise Failure(f"of {len(strayed)} renewals at another agent hardly any succeeded")


@fault(
    "callers that wait in one line (order: fair)",
    policy="order: fair",
    fair=True,
    contenders=2 * CONTENDERS,
)
def callers_wait_in_line(_world):
    time.sleep(FAULT_S)


@fault("SIGSTOP of an agent, 2 ttl (order: fair)", policy="order: fair", more=True)
def agent_stopped_in_line(world):
    world.pause([f"agent{world.agent()}"], 2 * TTL_S)


@fault("SIGKILL of an agent (order: fair)", policy="order: fair")
def agent_killed_in_line(world):
    agent_killed(world)
    time.sleep(FAULT_S / 2)


@fault("SIGKILL of callers bound by a connection", limits={"max_ttl": f"{BOUND_TTL_MS}ms"})
def bound_callers_killed(world):
    count = 0
    for _ in range(2):
        world.launch_bound(BOUND_TTL_MS)
        time.sleep(world.random.uniform(0.5, 1))
        held = world.kill_bound()
        count += len(held)
        if not eventually(lambda held=held: not world.still_held(held), BOUND_TTL_MS / 5000):
            raise Failure(
                "still locked after their callers' end: "
                + ", ".join(key for key, _ in world.still_held(held))
            )
    if count == 0:
        raise Failure("nothing was held by a connection")


# ---- readers and writers, and permits, beside mutexes


def of_kinds(name, **more):
    return fault(f"kinds mixed: {name}", kinds=True, contenders=2 * CONTENDERS, **more)


of_kinds("none")(nothing)
of_kinds("SIGKILL of an agent")(agent_killed)


@of_kinds("SIGSTOP of an agent, 2 ttl")
def agent_of_kinds_stopped(world):
    agent_stopped(world, stop=2)


for count in (1, 3):

    @of_kinds(f"FLUSHALL on {some_masters(count)}", guarded=True, guessed=count == 3)
    def masters_of_kinds_flushed(world, count=count):
        masters_flushed(world, count=count)


@of_kinds("partition from majority of the masters")
def masters_of_kinds_cut_off(world):
    partition(world, count=3)


def expect_foreign(world, agent, key):
    """A hold of another agent is no lock that this one knows; still it is held."""
    status, problem = world.ask(agent, "POST", f"/locks/{key}")
    if (status, problem.get("code")) != (409, "lock_held"):
        raise Failure(f"agent {agent}, of another kind, is told of {key}: {status} {problem}")
    _, seen = world.ask(agent, "GET", f"/locks/{key}")
    states = [each["state"] for each in seen["masters"]]
    if states.count("foreign") < MASTERS // 2 + 1:
        raise Failure(f"agent {agent}, of another kind, sees {key} as {', '.join(states)}")


# Without a guard no layout is compared (R23).
@of_kinds("an agent that knows another kind", of_another_kind=[0], group="guard: off")
def agents_of_another_kind(world):
    for agent, other in ((0, 1), (1, 0)):
        token = world.hold(agent, f"rw/of/{agent}", TTL_MS)
        expect_foreign(world, other, f"rw/of/{agent}")
        world.let_go(agent, f"rw/of/{agent}", token)
    time.sleep(FAULT_S)


# ---- one master and its replicas (R21)


def of_replicas(name, **more):
    return fault(
        name,
        replicas=2,
        group="durable: false, replicas: {ack: 1, timeout: 60ms}",
        policy="algorithm: single",
        **more,
    )


@of_replicas("replicas of a single master stopped")
def replicas_stopped(world):
    world.pause(["master1", "master2"], FAULT_S)


@of_replicas("a replica of a single master promoted", guarded=True)
def replica_promoted(world):
    world.promote(1)


@of_replicas("a replica of a single master promoted without the keys", guarded=True)
def replica_promoted_without_keys(world):
    world.ask_master(1, "REPLICAOF", "NO", "ONE")
    time.sleep(FAULT_S)
    world.promote(1)


# ---- a service in Java beside the agents (R22)


def of_java(name, **more):
    return fault(
        f"Java contender: {name}", java=True, durable=True, policy="format: redisson", **more
    )


of_java("none")(nothing)
of_java("SIGKILL of an agent", more=True)(agent_killed)


@of_java("SIGKILL of it")
def java_killed(world):
    world.kill("java")
    time.sleep(FAULT_S)
    world.launch_java()


@of_java("SIGSTOP of it, 2 ttl")
def java_stopped(world):
    world.pause(["java"], 2 * TTL_S)


@of_java("SIGKILL of 1 master", more=True)
def master_of_java_killed(world):
    masters_killed(world, count=1)


@of_java("its forceUnlock", breaks="A4")
def java_forces(world):
    for _ in range(10):
        world.signal("java", signal.SIGUSR1)
        time.sleep(FAULT_S / 10)
