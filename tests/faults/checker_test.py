#!/usr/bin/env python3
"""The checker on histories made by hand: good ones, on which it is silent, and for each property
bad ones, of which it names that property and no other. A line of a history is a call of one of
the small functions below; times are milliseconds."""
import sys

import checker


def event(op, t0, t1, hold, outcome="ok", key="k", agent=0, **more):
    return dict(
        op=op,
        caller=0,
        agent=agent,
        key=key,
        hold=hold,
        t0=t0 * 1000,
        t1=t1 * 1000,
        outcome=outcome,
        **more,
    )


def told(op, t0, t1, hold, until, **more):
    """An answer that reports a hold; it was written half way between question and answer, unless
    `written` says when."""
    written = more.pop("written", (t0 + t1) // 2)
    return event(op, t0, t1, hold, status=200, until_ms=until, for_ms=until - written, **more)


def grant(t0, t1, hold, until, fence, **more):
    return told("acquire", t0, t1, hold, until, fence=fence, **more)


def release(t0, t1, hold, outcome="ok", **more):
    return event("release", t0, t1, hold, outcome, **more)


def write(t0, t1, hold, fence, saw, outcome="ok", **more):
    return event("write", t0, t1, hold, outcome, fence=fence, saw=saw, wrote=saw + 1, **more)


def read(t0, hold, fence, saw, outcome="ok"):
    """A look at the register by a caller that only reads."""
    return event("read", t0, t0, hold, outcome, fence=fence, saw=saw, wrote=0, mode="read")


def reader(t0, t1, hold, until, fence, **more):
    return grant(t0, t1, hold, until, fence, mode="read", **more)


def writer(t0, t1, hold, until, fence, **more):
    return grant(t0, t1, hold, until, fence, mode="write", **more)


def permit(t0, t1, hold, slot, fence, until=1000, permits=2, **more):
    return grant(t0, t1, hold, until, fence, slot=slot, permits=permits, **more)


def heal(t0, agents=(0,), within=1000):
    return {"op": "heal", "t0": t0 * 1000, "agents": list(agents), "within_ms": within}


def keys(t0, *left):
    return {"op": "keys", "t0": t0 * 1000, "master": 0, "keys": list(left)}


def killed(t0, first=0, last=0):
    return {"op": "killed", "t0": t0 * 1000, "first": first, "last": last}


def waited(t0, t1, hold, wait, code="", **more):
    """An acquire that may have waited: granted, or refused if there is a code."""
    if code:
        return event("acquire", t0, t1, "", "fail", code=code, status=409, wait_ms=wait, **more)
    return grant(t0, t1, hold, t1 + 1000, t1, wait_ms=wait, written=t1, **more)


GOOD = {
    "an empty history": [],
    "release, then the next": [
        grant(0, 2, "a", 1000, 1),
        release(10, 12, "a"),
        grant(3, 11, "b", 1010, 2),
    ],
    "expiry, then the next": [grant(0, 2, "a", 1000, 1), grant(900, 1001, "b", 2000, 2)],
    "a release without an answer ends the window too": [
        grant(0, 2, "a", 1000, 1),
        release(10, 500, "a", "info"),
        grant(20, 30, "b", 1030, 2),
    ],
    "a renewal prolongs": [
        grant(0, 2, "a", 1000, 1),
        told("renew", 500, 502, "a", 1500),
        grant(1400, 1501, "b", 2500, 2),
    ],
    "no answer, no window": [event("acquire", 0, 4000, "", "info"), grant(10, 12, "b", 1000, 1)],
    "other keys are other locks": [grant(0, 2, "a", 1000, 1), grant(5, 6, "b", 1000, 1, key="l")],
    "a grant that was read too late has no window": [
        grant(0, 2000, "a", 900, 1, written=3),
        grant(950, 1000, "b", 2500, 2),
    ],
    "a refused write is none": [
        grant(0, 2, "a", 100, 1),
        write(5, 8, "a", 1, 0),
        grant(90, 101, "b", 1000, 2),
        write(110, 113, "b", 2, 1),
        write(99, 114, "a", 1, 1, "fail"),
        write(120, 123, "b", 2, 2),
    ],
    "wrong tokens are refused": [
        event("probe", 0, 1, "x", "fail", status=412, note="wrong"),
        event("probe", 2, 3, "x", status=202, note="spent"),
    ],
    "lost, and adopted at another agent": [
        grant(0, 2, "a", 1000, 1),
        event("renew", 10, 11, "a", "fail", code="lock_lost", status=410),
        told("renew", 20, 22, "a", 1010, agent=1),
    ],
    "the end of a bound caller is a release": [
        grant(0, 2, "a", 1000, 1),
        killed(10),
        dict(grant(5, 12, "b", 1012, 2), caller=7),
    ],
    "healed": [
        heal(100, (0, 1)),
        grant(90, 101, "a", 1000, 1),
        grant(102, 900, "b", 1900, 1, key="l", agent=1),
        keys(4000),
    ],
    "readers beside each other, with one number or several": [
        reader(0, 2, "a", 1000, 5),
        reader(1, 3, "b", 1000, 7),
        reader(2, 4, "c", 1000, 5),
    ],
    "a writer after readers": [
        reader(0, 2, "a", 1000, 5),
        reader(1, 3, "b", 500, 5),
        release(600, 601, "a"),
        writer(500, 602, "c", 1500, 6),
    ],
    "a reader has the number of the write before": [
        writer(0, 2, "a", 1000, 5),
        release(10, 11, "a"),
        reader(5, 12, "b", 1012, 5),
        release(20, 21, "b"),
        writer(22, 23, "c", 1022, 6),
    ],
    "a reader sees the same, and is refused when its time is over": [
        reader(0, 2, "a", 100, 5),
        read(3, "a", 5, 0),
        read(4, "a", 5, 0),
        writer(90, 101, "b", 1000, 6),
        write(110, 113, "b", 6, 0, mode="write"),
        read(114, "a", 5, 0, "fail"),
    ],
    "a writer that comes too late is refused": [
        writer(0, 2, "a", 100, 5),
        reader(90, 101, "b", 1000, 5),
        read(102, "b", 5, 0),
        write(103, 104, "a", 5, 0, "fail", mode="write"),
    ],
    "permits, each in a slot of its own": [
        permit(0, 2, "a", 0, 9),
        permit(1, 3, "b", 1, 4),
        release(10, 11, "a"),
        permit(5, 12, "c", 0, 10),
    ],
    "slots have registers of their own": [
        permit(0, 2, "a", 0, 9),
        permit(1, 3, "b", 1, 9),
        write(4, 7, "a", 9, 0, slot=0),
        write(5, 8, "b", 9, 0, slot=1),
    ],
}

BAD = {
    "a reader beside a writer": (
        "C14",
        [writer(0, 2, "a", 1000, 5), reader(3, 4, "b", 1000, 5)],
    ),
    "a writer beside the second of two readers": (
        "C14",
        [
            reader(0, 2, "a", 1000, 5),
            reader(1, 3, "b", 1000, 5),
            release(10, 11, "a"),
            writer(9, 12, "c", 1012, 6),
        ],
    ),
    "a writer enters when the first of two leases ends": (
        "C14",
        [
            reader(0, 2, "a", 300, 5),
            reader(1, 3, "b", 1000, 5),
            writer(290, 301, "c", 1301, 6),
        ],
    ),
    "a renewed reader and a writer": (
        "C14",
        [
            reader(0, 2, "a", 300, 5),
            told("renew", 100, 102, "a", 600, mode="read"),
            writer(290, 301, "c", 1301, 6),
        ],
    ),
    "two writers": ("C1", [writer(0, 2, "a", 1000, 5), writer(3, 4, "b", 1000, 6)]),
    "a mutex beside a reader": ("C14", [reader(0, 2, "a", 1000, 5), grant(3, 4, "b", 1000, 6)]),
    "a mutex beside a permit": ("C1", [permit(0, 2, "a", 0, 5), grant(3, 4, "b", 1000, 6)]),
    "one slot twice": ("C15", [permit(0, 2, "a", 1, 5), permit(3, 4, "b", 1, 6)]),
    "one more than there are permits": (
        "C15",
        [permit(0, 2, "a", 0, 5), permit(1, 3, "b", 1, 6), permit(2, 4, "c", 2, 7)],
    ),
    "a slot's numbers fall": (
        "C2",
        [permit(0, 2, "a", 1, 9), release(10, 12, "a"), permit(11, 13, "b", 1, 8)],
    ),
    "a slot's number twice": (
        "C2",
        [permit(0, 2, "a", 1, 9), release(10, 12, "a"), permit(11, 13, "b", 1, 9)],
    ),
    "a lost write of a slot": (
        "C3",
        [write(0, 3, "a", 1, 0, slot=1), write(1, 4, "b", 1, 0, slot=1)],
    ),
    "two writers with one number": (
        "C2",
        [writer(0, 2, "a", 1000, 9), release(10, 12, "a"), writer(11, 13, "b", 1010, 9)],
    ),
    "a reader's number is below the write before": (
        "C16",
        [writer(0, 2, "a", 1000, 9), release(10, 12, "a"), reader(11, 13, "b", 1010, 8)],
    ),
    "a writer's number is that of a read before": (
        "C16",
        [reader(0, 2, "a", 1000, 9), release(10, 12, "a"), writer(11, 13, "b", 1010, 9)],
    ),
    "a reader sees a write": (
        "C16",
        [
            reader(0, 2, "a", 1000, 9),
            read(3, "a", 9, 0),
            write(4, 5, "z", 9, 0, mode="write"),
            read(6, "a", 9, 1),
        ],
    ),
    "a valid reader is refused": (
        "C16",
        [reader(0, 2, "a", 1000, 9), read(3, "a", 9, 0, "fail")],
    ),
    "a valid writer is refused": (
        "C16",
        [writer(0, 2, "a", 1000, 9), write(3, 4, "a", 9, 0, "fail", mode="write")],
    ),
    "two holders": ("C1", [grant(0, 2, "a", 1000, 1), grant(5, 6, "b", 1005, 2)]),
    "another caller was killed": (
        "C1",
        [grant(0, 2, "a", 1000, 1), killed(10, 8, 9), dict(grant(5, 12, "b", 1012, 2), caller=7)],
    ),
    "a killed caller's window before its end": (
        "C1",
        [grant(0, 2, "a", 1000, 1), killed(10), dict(grant(5, 9, "b", 1009, 2), caller=7)],
    ),
    "a killed caller's lock is renewed, and taken": (
        "C1",
        [
            grant(0, 2, "a", 1000, 1),
            killed(10),
            dict(grant(20, 21, "b", 1021, 2), caller=5),
            told("renew", 30, 31, "b", 1500),
            dict(grant(1020, 1030, "c", 2030, 3), caller=7),
        ],
    ),
    "two holders after a renewal": (
        "C1",
        [
            grant(0, 2, "a", 1000, 1),
            told("renew", 500, 502, "a", 1500),
            grant(1200, 1300, "b", 2000, 2),
        ],
    ),
    "two holders after a look": (
        "C1",
        [
            grant(0, 2, "a", 1000, 1),
            told("look", 500, 502, "a", 1500),
            grant(1200, 1300, "b", 2000, 2),
        ],
    ),
    "taken although only lost": (
        "C1",
        [
            grant(0, 2, "a", 1000, 1),
            event("renew", 10, 11, "a", "fail", code="lock_lost", status=410),
            grant(12, 14, "b", 1000, 2),
        ],
    ),
    "the earlier of two windows": (
        "C1",
        [
            grant(0, 2, "a", 5000, 1),
            grant(0, 3, "b", 10, 2),
            release(4, 5, "b"),
            grant(6, 7, "c", 900, 3),
        ],
    ),
    "numbers that fall": (
        "C2",
        [grant(0, 2, "a", 1000, 9), release(10, 12, "a"), grant(11, 13, "b", 1010, 8)],
    ),
    "a number twice": (
        "C2",
        [grant(0, 2, "a", 1000, 9), release(10, 12, "a"), grant(11, 13, "b", 1010, 9)],
    ),
    "a lost write": ("C3", [write(0, 3, "a", 1, 0), write(1, 4, "b", 1, 0)]),
    "a write from nowhere": ("C3", [write(0, 3, "a", 1, 7)]),
    "a wrong token renews": ("C4", [event("probe", 0, 1, "x", status=200, note="wrong")]),
    "a spent token releases": ("C4", [event("probe", 0, 1, "x", status=204, note="spent")]),
    "held for nothing": ("C5", [told("look", 990, 1010, "a", 1000, written=1000)]),
    "an old truth": (
        "C5",
        [grant(0, 2, "a", 1000, 1), told("look", 500, 501, "a", 1000, written=300)],
    ),
    "held after lost": (
        "C5",
        [
            event("renew", 10, 11, "a", "fail", code="lock_lost", status=410),
            told("look", 20, 22, "a", 1000),
        ],
    ),
    "no grant after healing": ("C6", [grant(0, 2, "a", 1000, 1), heal(100)]),
    "a grant too long after healing": (
        "C6",
        [heal(100, within=500), grant(600, 700, "a", 1700, 1)],
    ),
    "one agent stays out": ("C6", [heal(100, (0, 1)), grant(101, 102, "a", 1000, 1)]),
    "an orphaned key": ("C6", [keys(4000, "lock:k")]),
}


# Histories with order: fair (C11), in which all know a caller that asked 100 ms earlier. Each is a
# history and how many were overtaken.
LINES = {
    "served as they came": (0, [waited(0, 500, "a", 1000), waited(200, 900, "b", 1000)]),
    "overtaken": (1, [waited(0, 900, "a", 1000), waited(200, 500, "b", 1000)]),
    "overtaken by two": (
        2,
        [waited(0, 900, "a", 1000), waited(200, 500, "b", 1000), waited(300, 600, "c", 1000)],
    ),
    "overtaken, and in vain": (
        1,
        [waited(0, 1000, "", 1000, "wait_timeout"), waited(200, 500, "b", 1000)],
    ),
    "overtaken at another agent": (
        1,
        [waited(0, 900, "a", 1000), waited(200, 500, "b", 1000, agent=1)],
    ),
    "too close to tell": (0, [waited(0, 900, "a", 1000), waited(50, 500, "b", 1000)]),
    "its wait was as good as over": (
        0,
        [waited(0, 550, "", 500, "wait_timeout"), waited(200, 450, "b", 1000)],
    ),
    "for another key": (0, [waited(0, 900, "a", 1000), waited(200, 500, "b", 1000, key="l")]),
    "it did not wait": (0, [waited(0, 900, "a", 0), waited(200, 500, "b", 1000)]),
    "it was refused for another reason": (
        0,
        [waited(0, 900, "", 1000, "quorum_unavailable"), waited(200, 500, "b", 1000)],
    ),
}


def overtaken(history):
    found = [
        violation
        for violation in checker.check(history, fair_us=100000).violations
        if violation.startswith("C11 ")
    ]
    assert not [each for each in checker.check(history).violations if each.startswith("C11 ")]
    return len(found)


def rules(history):
    return sorted({violation.split()[0] for violation in checker.check(history).violations})


def kinds():
    """Counts of each kind in the history: a row of mixed kinds must have all of them."""
    readers = [
        reader(0, 2, "a", 1000, 5),
        reader(1, 3, "b", 1000, 5),
        reader(2, 2000, "c", 3000, 5),
    ]
    permits = [permit(0, 2, "d", 0, 9, key="l"), permit(1, 3, "e", 1, 9, key="l")]
    return dict(checker.check(readers + permits + [writer(0, 2, "f", 1000, 1, key="m")]).kinds)


def figures():
    verdict = checker.check(
        [
            {"op": "fault", "t0": 0},
            grant(1, 2, "a", 100, 1, note="solo"),
            grant(90, 101, "b", 200, 2, note="solo"),
            event("expire", 200, 200, "b", note="meant"),
            event("acquire", 202, 203, "", "fail", note="solo"),
            event("acquire", 204, 205, "", "info"),
            event("expire", 206, 206, "c"),
            heal(207),
            grant(208, 210, "d", 300, 3),
        ]
    )
    return (
        verdict.grants,
        verdict.take_overs,
        verdict.losses,
        verdict.unknown,
        verdict.solo_asked,
        verdict.solo_granted,
        verdict.recovery_ms,
    )


def main():
    passed = failed = 0

    def judge(name, real, wanted):
        nonlocal passed, failed
        passed, failed = passed + (real == wanted), failed + (real != wanted)
        if real != wanted:
            print(f"FAILED {name}: {real}, not {wanted}")

    for name, history in GOOD.items():
        judge(name, rules(history), [])
    for name, (rule, history) in BAD.items():
        judge(name, rules(history), [rule])
    for name, (count, history) in LINES.items():
        judge(name, overtaken(history), count)
    falling, twice = BAD["numbers that fall"][1], BAD["a number twice"][1]
    judge(
        "numbers kept apart",
        [
            len(checker.check(history, apart).violations)
            for history, apart in ((falling, 0), (falling, 1), (twice, 1))
        ],
        [1, 0, 1],
    )
    judge("figures", figures(), (3, 2, 1, 1, 3, 2, 3.0))
    judge("kinds", kinds(), {"write": 1, "read": 1, "slot": 1})
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
