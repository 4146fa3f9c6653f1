"""Agents whose lists of masters differ, under load (R23): roll-outs of another list, one pod after
the other, as operators do them and as they should not.

Nothing here is timed: each step waits for its events, and fails after PATIENT_S without them."""
import itertools

import means
from means import AGENTS, MASTERS, Failure
from world import World

PATIENT_S = 60  # masters keep a layout of agents that have ended for about ten seconds


class Layouts(World):
    """Each agent knows some of the five masters: at first the first three."""

    def __init__(self, build, seed, **more):
        self.lists, self.addresses, self.limits = {}, {}, {}
        super().__init__(build, seed, **more)

    def configure(self, agent, masters, limits):
        self.addresses[agent], self.limits = masters, limits
        known = self.lists.setdefault(agent, [0, 1, 2])
        super().configure(agent, [masters[each] for each in known], limits)

    def masters_of(self, agent):
        return self.lists[agent]

    def roll_out(self, agent, masters):
        """Restarts the agent with this list of masters, without waiting for it."""
        self.end(agent)
        self.begin(agent, masters)

    def end(self, agent):
        self.processes[f"agent{agent}"].terminate()
        self.processes[f"agent{agent}"].wait(PATIENT_S)
        self.kill(f"agent{agent}")

    def begin(self, agent, masters):
        self.lists[agent] = masters
        self.configure(agent, self.addresses[agent], self.limits)
        self.launch_agent(agent)

    def await_ready(self, agent):
        if not eventually(lambda: self.is_ready(agent)):
            raise Failure(f"agent {agent} is not let in:\n{self.log(f'agent{agent}')}")

    def await_refused(self, agent):
        """It says which layout refuses it, and grants nothing."""
        path, told = "/locks/let-in", []

        def is_refused():
            status, answer = self.ask(agent, "POST", f"{path}?wait=0s")
            told.append((status, answer))
            if status == 201:
                self.ask(agent, "DELETE", path, answer["token"])
            return status == 503 and answer.get("code") == "layout_mismatch"

        if not eventually(is_refused):
            raise Failure(f"agent {agent} is not refused: {told[-1]}")
        if self.is_ready(agent):
            raise Failure(f"agent {agent} is refused, and says that it is ready")

    def expect_service(self, agents):
        """These agents grant, from now on, and no other agent does. A caller may read an answer of
        an agent that has ended late."""
        self.mark("step")
        since_us = self.marks[-1]["t0"]
        if not eventually(lambda: agents <= self.grants_since(since_us)):
            left = sorted(agents - self.grants_since(since_us))
            raise Failure(f"agents {left} grant nothing")
        if strangers := self.grants_since(since_us, since="t0") - agents:
            raise Failure(f"agents {sorted(strangers)} grant, and should be refused")


def eventually(condition):
    return means.eventually(condition, PATIENT_S)


ALL = set(range(AGENTS))


def wrong_list(world):
    """The first pod of a roll-out gets a list with two other masters, and then the right one."""
    world.roll_out(0, [0, 3, 4])
    world.await_refused(0)
    for _ in range(3):
        world.expect_service(ALL - {0})
    world.await_refused(0)
    world.roll_out(0, [0, 1, 2])
    world.await_ready(0)


def too_fast(world):
    """Two masters are added, and the second one without a wait. The last agent is forgotten: it has
    the list from before."""
    for masters in ([0, 1, 2, 3], [0, 1, 2, 3, 4]):
        for agent in sorted(ALL - {AGENTS - 1}):
            world.roll_out(agent, masters)
    for agent in sorted(ALL - {AGENTS - 1}):
        world.await_refused(agent)
    for _ in range(3):
        world.expect_service({AGENTS - 1})
    world.roll_out(AGENTS - 1, [0, 1, 2, 3, 4])
    for agent in sorted(ALL):
        world.await_ready(agent)


def walk(world):
    """From three masters to five and back, one at a time. Each roll-out waits for the one before
    it, and no agent stops to grant."""
    steps = [[0, 1, 2, 3], [0, 1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4]]
    for masters in steps:
        for agent in sorted(ALL):
            world.roll_out(agent, masters)
            world.await_ready(agent)
            world.expect_service(ALL)


def at_once(world):
    """All agents start at once, each with a list that is no neighbour of the others. One is let in,
    and the others are not. The second time all have waited for the same end, of the layout that was
    let in before."""
    lists = [list(each) for each in itertools.combinations(range(MASTERS), 3)]
    world.random.shuffle(lists)
    for _ in range(2):
        for agent in ALL:
            world.end(agent)
        for agent in ALL:
            world.begin(agent, lists.pop())
        if not eventually(lambda: any(world.is_ready(agent) for agent in ALL)):
            raise Failure(f"no agent is let in:\n{world.log('agent0')}")
        first = {agent for agent in ALL if world.is_ready(agent)}
        if len(first) != 1:
            raise Failure(f"agents {sorted(first)} are let in at one time")
        for agent in ALL - first:
            world.await_refused(agent)
        world.expect_service(first)
    for agent in ALL:
        world.roll_out(agent, [0, 1, 2])
    for agent in ALL:
        world.await_ready(agent)


def nothing_in_common(world):
    """The only master that both lists name is away from the agent with the other list (A4). When it
    is back, that agent is refused."""
    world.weather(world.links(agents=[0], masters=[0]), refuse=1)
    world.roll_out(0, [0, 3, 4])
    world.await_ready(0)
    for _ in range(3):
        world.expect_service(ALL)
    world.clear_weather()
    world.await_refused(0)
    world.roll_out(0, [0, 1, 2])
    world.await_ready(0)
