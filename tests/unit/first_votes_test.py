#!/usr/bin/env python3
"""`lockagent trust --new` (D5.3) as a model that is searched whole: first_votes_test.py.

Three masters, of which two are a quorum; installers, an agent that may not reach all masters, and
masters that lose all their data at any instant. Time goes in ticks of an agent's question for
markers; all events of a tick happen in any order. A step that never comes is an
installer that was killed. The property: no caller is granted the lock while it is held.

The rules hold, and each weaker set of rules fails here; its shortest story is printed.
"""
import collections
import gc
import sys
import unittest

MASTERS, QUORUM = 3, 2
LEASE = 4  # in ticks; it is limits.max_ttl
GUARD = LEASE + 1
OWN_KEY = 5  # how long the key of a run is kept
NONE = -1  # no marker; other values are the ticks until the master votes

# mark: NONE or ticks; held: ticks that the lock's key is kept; own: the same of each run's key;
# asked: by the agent, in this tick, before the master lost its data
Master = collections.namedtuple("Master", "mark held own asked")
# at: steps that were done; left: ticks to wait; stopped: it found something
Installer = collections.namedtuple("Installer", "at left")
# valid: ticks that the holder may count on; reach: masters of the agent, None before it starts
State = collections.namedtuple("State", "masters installers valid reach losses")
STOPPED = Installer(99, 0)


class Rules:
    """As they are; each weaker set leaves one of them out."""

    wait = 2
    second_pass = True
    own_key_in_second = own_key_in_third = True
    shared_key = False


class NoSecondPass(Rules):
    second_pass = False


class NoOwnKey(Rules):
    own_key_in_second = own_key_in_third = False


class NoWait(Rules):
    wait = 0


class OwnKeyInSecondPassOnly(Rules):
    own_key_in_third = False


class OneKeyForAll(Rules):
    shared_key = True
    own_key_in_second = False


def changed(items, i, item):
    return items[:i] + (item,) + items[i + 1 :]


def with_own(rules, master, i, left):
    return master._replace(own=changed(master.own, 0 if rules.shared_key else i, left))


def passes_of(rules):
    return ("claim", "look", "vote") if rules.second_pass else ("claim", "vote")


def installed(rules, state, i):
    """The name of an installer's next step, and the state after it."""
    installer = state.installers[i]
    passes = passes_of(rules)
    if installer.left > 0 or installer.at >= MASTERS * len(passes):
        return None
    call, m = passes[installer.at // MASTERS], installer.at % MASTERS
    master = state.masters[m]
    own = master.own[0 if rules.shared_key else i] > 0
    there = Installer(installer.at + 1, 0)
    is_last = there.at == MASTERS * len(passes)
    if call == "claim":
        well = master.mark == NONE
        made = with_own(rules, master, i, OWN_KEY)
        if m == MASTERS - 1:
            there = there._replace(left=rules.wait)
    elif call == "look":
        well = master.mark == NONE and (own or not rules.own_key_in_second)
        made = master
    else:
        may = master.mark == NONE and (own or not rules.own_key_in_third)
        well = True  # it leaves that master alone, and goes on
        made = with_own(rules, master, i, 0)._replace(mark=0) if may else master
    if not well or is_last:
        there = STOPPED
    return f"installer {i}: {call} at {m}{'' if well else ': stops'}", state._replace(
        masters=changed(state.masters, m, made) if well else state.masters,
        installers=changed(state.installers, i, there),
    )


def lost(state, m, was_asked):
    """The master loses all its data."""
    master = state.masters[m]
    empty = Master(NONE, 0, (0,) * len(master.own), was_asked)
    return state._replace(masters=changed(state.masters, m, empty), losses=state.losses - 1)


def marked(state, m):
    """The agent asks for the marker, and writes it."""
    return state._replace(masters=changed(state.masters, m, state.masters[m]._replace(mark=GUARD)))


def granted(state):
    """By all quorums that vote and are free, of masters that a caller's agent may reach."""
    free = [m for m in range(MASTERS) if state.masters[m].mark == 0 and not state.masters[m].held]
    for a in free:
        for b in free:
            if a < b:
                masters = state.masters
                for m in (a, b):
                    masters = changed(masters, m, masters[m]._replace(held=LEASE))
                yield f"granted by {a} and {b}", state._replace(masters=masters, valid=LEASE)


def later_own(state, i, left):
    """Of no interest when the run has ended: its steps alone look at it."""
    ended = state.installers[i] == STOPPED and len(state.installers) == len(state.masters[0].own)
    return 0 if ended else max(0, left - 1)


def ticked(state):
    """A tick is over when the agent has asked all masters that it reaches."""
    at_work = [state.masters[m] for m in state.reach or ()]
    if any(master.mark == NONE and not master.asked for master in at_work):
        return None
    return State(
        masters=tuple(
            Master(
                master.mark - (master.mark > 0),
                max(0, master.held - 1),
                tuple(later_own(state, i, left) for i, left in enumerate(master.own)),
                False,
            )
            for master in state.masters
        ),
        installers=tuple(each._replace(left=max(0, each.left - 1)) for each in state.installers),
        valid=max(0, state.valid - 1),
        reach=state.reach,
        losses=state.losses,
    )


def next_states(rules, state):
    for i in range(len(state.installers)):
        if step := installed(rules, state, i):
            yield step
    for m in range(MASTERS):
        master, reached = state.masters[m], m in (state.reach or ())
        if state.losses:
            yield f"{m} loses its data", lost(state, m, False)
        if state.losses and reached and master.mark != NONE:
            yield f"{m} is asked, and loses its data", lost(state, m, True)
        if reached and master.mark == NONE:
            yield f"the agent marks {m}", marked(state, m)
    if state.reach is None:  # no caller has a lock without an agent
        for reach in REACHES if len(state.installers) == 1 else REACHES[:1]:
            yield f"an agent starts that reaches {reach}", state._replace(reach=reach)
    else:
        yield from granted(state)
    if later := ticked(state):
        yield "a tick", later


REACHES = ((0, 1, 2), (2,))


def beginnings(rules, installers, losses, old):
    """New masters; or old ones that vote, with a holder whose agent lives."""
    own = (0,) * (1 if rules.shared_key else installers)
    ready = (Installer(0, 0),) * installers
    if not old:
        yield State((Master(NONE, 0, own, False),) * MASTERS, ready, 0, None, losses)
    for reach in REACHES if old else ():
        held = (Master(0, LEASE, own, False),) * MASTERS
        yield State(held, ready, LEASE, reach, losses)


def search(rules, installers, losses, old):
    """The shortest story of two holders, or None; and how many states there are."""
    seen = {first: None for first in beginnings(rules, installers, losses, old)}
    line = collections.deque(seen)
    while line:
        state = line.popleft()
        for name, after in next_states(rules, state):
            if name.startswith("granted") and state.valid:
                story = [name]
                while seen[state]:
                    name, state = seen[state]
                    story.append(name)
                return story[::-1], len(seen)
            if after not in seen:
                seen[after] = name, state
                line.append(after)
    return None, len(seen)


class FirstVotes(unittest.TestCase):
    def holds(self, installers, losses, old):
        story, states = search(Rules, installers, losses, old)
        print(f"{installers} installers, {losses} losses: {states} states")
        self.assertIsNone(story)

    def fails(self, rules, installers, losses, old):
        story, states = search(rules, installers, losses, old)
        print(f"{rules.__name__}: {states} states: {story and '; '.join(story)}")
        self.assertIsNotNone(story, f"{rules.__name__} is not seen to fail")

    def test_new_masters(self):
        self.holds(1, 2, old=False)

    def test_old_masters(self):
        self.holds(1, 3, old=True)

    def test_two_installers(self):
        self.holds(2, 0, old=False)

    def test_weaker(self):
        self.fails(NoSecondPass, 1, 3, old=True)
        self.fails(NoOwnKey, 1, 4, old=True)
        self.fails(NoWait, 1, 3, old=True)
        self.fails(OwnKeyInSecondPassOnly, 1, 1, old=False)
        self.fails(OneKeyForAll, 2, 1, old=False)


if __name__ == "__main__":
    gc.disable()  # states have no circles, and there are many
    unittest.main(argv=sys.argv)
