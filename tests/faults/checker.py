#!/usr/bin/env python3
"""Holds the promises of D1 over a history of real operations: checker.py HISTORY...

A history is JSON lines. Those of the callers (history.c) have the caller, its request with its time
(t0), and the answer with its time (t1), in microseconds of the boot clock that all of them share,
with the outcome ok, fail or info (no answer: it may have happened). Those of the runner say when a
fault began (`fault`) and ended (`heal`), which callers were killed, and with them their connections
(`killed`), and which keys were on the masters at the end (`keys`).

  C1  at most one holder per key inside the validity that was reported
  C2  the fencing numbers of a key's grants rise, and no number is given twice
  C3  a register that refuses smaller fencing numbers than it has seen never loses a write
  C4  no wrong token ever succeeds
  C5  nothing is reported held after its validity, nor after it was reported lost
  C6  after healing every agent grants again within a bound, and no key without a holder outlives
      its last renewal by its ttl and a second
  C11  with order: fair no caller is granted a lock before one that has waited for it for longer, at
       any agent
  C14  no reader's window meets a writer's
  C15  of a semaphore never more are held than it has permits, each in a slot of its own
  C16  a read's number is at least that of each write before it and below each later one's; the
       register shows a reader the same for as long as it takes its number, and refuses no reader
       inside its window

C2 and C3 apply to each slot of a semaphore. A hold whose answers name no mode is one that writes. A
hold whose answers name no slot is not a semaphore's.

A window begins when the caller has read the answer and ends with the validity that it was told, or
when it asks for the release. It does not matter whether the agent has said `lost` meanwhile: no
other caller may have the lock before the window is over.
"""
import collections
import json
import sys

JAVA = -1  # the agent of callers that ask none (java.py)
ROUNDING_US = 2000  # milliseconds, cut off, on both sides of a subtraction


class Verdict:
    """The findings of a history: the violations as text, and the figures."""

    def __init__(self):
        self.violations = []
        self.grants = self.take_overs = self.losses = self.operations = self.unknown = 0
        # windows of writers, and beside others' those of readers and of slots
        self.kinds = collections.Counter()
        self.recovery_ms = None  # from healing to the next grant of the slowest agent
        self.orphans = 0
        self.solo_asked = self.solo_granted = 0  # between fault and heal
        self.holds_of_java = 0

    def violated(self, rule, event, text):
        self.violations.append(
            f"{rule} {event.get('key', '')} at {event.get('t1', event.get('t0'))}: {text}"
        )


def short(token):
    return token[:6] or "nobody"


def reports_hold(event):
    return (
        event["outcome"] == "ok"
        and event.get("until_ms")
        and event["op"] in ("acquire", "renew", "look")
    )


def ends_of_killed(operations, marks):
    """(key, token) -> when its caller was killed."""
    ends = {}
    for mark in marks:
        if mark["op"] == "killed":
            ends.update(
                {
                    (event["key"], event["hold"]): mark["t0"]
                    for event in operations
                    if event["op"] == "acquire" and mark["first"] <= event["caller"] <= mark["last"]
                }
            )
    return ends


def reads(event):
    return event.get("mode") == "read"


def lock_of(event):
    """Returns the owner of numbers and registers: a key, or one slot of a semaphore."""
    return event["key"], event.get("slot")


def windows_by_key(operations, marks):
    """key -> [(from, until, token, event)], sorted. The first attempt to release ends all windows
    of a hold, and so does the end of a bound caller."""
    given_back = ends_of_killed(operations, marks)
    for event in operations:
        if event["op"] == "release":
            hold = event["key"], event["hold"]
            given_back[hold] = min(event["t0"], given_back.get(hold, sys.maxsize))
    windows = collections.defaultdict(list)
    for event in operations:
        if reports_hold(event):
            until = min(
                event["until_ms"] * 1000, given_back.get((event["key"], event["hold"]), sys.maxsize)
            )
            if event["t1"] < until:
                windows[event["key"]].append((event["t1"], until, event["hold"], event))
    for each in windows.values():
        each.sort(key=lambda window: window[:3])
    return windows


def broken_beside(event, other):
    """The rule that two holds at once break, or None."""
    slots = event.get("slot"), other.get("slot")
    if None not in slots:
        return "C15" if slots[0] == slots[1] else None
    if reads(event) and reads(other):
        return None
    return "C14" if reads(event) or reads(other) else "C1"


def check_exclusion(operations, marks, verdict):
    """C1, C14, C15. Of a hold's windows only the one that ends last matters: so keep one end per
    hold."""
    for key, windows in windows_by_key(operations, marks).items():
        ends, last = {}, {}
        for start, until, hold, event in windows:
            ends = {other: end for other, end in ends.items() if end > start or other == hold}
            others = [other for other in ends if other != hold]
            for other in others:
                rule = broken_beside(event, last[other])
                if rule:
                    verdict.violated(
                        rule,
                        {"key": key, "t0": start},
                        f"{short(hold)} holds it, and {short(other)} is valid for "
                        f"{(ends[other] - start) / 1000:.1f} ms more",
                    )
            if len(others) >= event.get("permits", sys.maxsize):
                verdict.violated("C15", {"key": key, "t0": start}, f"{short(hold)} is one too many")
            verdict.kinds["write"] += event.get("mode") == "write"
            verdict.kinds["read"] += bool(others) and reads(event)
            verdict.kinds["slot"] += bool(others) and "slot" in event
            ends[hold], last[hold] = max(until, ends.get(hold, 0)), event


def check_fencing(operations, verdict, apart_us):
    """C2, and with readers C16. Grants in the order of their answers; one that was read after its
    end proves no order."""
    written, given, read = {}, {}, {}
    grants = [
        event for event in operations if event["op"] == "acquire" and event["outcome"] == "ok"
    ]
    for event in sorted(grants, key=lambda event: event["t1"]):
        lock, fence = lock_of(event), event.get("fence", 0)
        if not reads(event):
            if (lock, fence) in given:
                verdict.violated(
                    "C2",
                    event,
                    f"{fence} was given to {short(given[lock, fence])} "
                    f"and to {short(event['hold'])}",
                )
            given[lock, fence] = event["hold"]
        if event["t1"] >= event["until_ms"] * 1000:
            continue
        if fence < written.get(lock, 0) - apart_us:
            rule = "C16" if reads(event) else "C2"
            verdict.violated(rule, event, f"{fence} comes after {written[lock]}")
        if not reads(event) and fence <= read.get(lock, 0):
            verdict.violated("C16", event, f"{fence} was read under, with {read[lock]}")
        largest = read if reads(event) else written
        largest[lock] = max(fence, largest.get(lock, 0))


def check_readers(operations, marks, verdict):
    """C16, of the register. Numbers of valid holders are never too small (R19)."""
    ends, seen = collections.defaultdict(int), {}
    for windows in windows_by_key(operations, marks).values():
        for _, until, hold, _ in windows:
            ends[hold] = max(until, ends[hold])
    for event in operations:
        if event["op"] not in ("read", "write") or "mode" not in event:
            continue
        hold = event["hold"]
        if event["outcome"] == "fail":
            if event["t1"] < ends[hold]:
                verdict.violated("C16", event, f"{short(hold)} is refused with {event['fence']}")
        elif event["op"] == "read" and seen.setdefault(hold, event["saw"]) != event["saw"]:
            verdict.violated(
                "C16", event, f"{short(hold)} saw {seen[hold]}, and then {event['saw']}"
            )


def check_register(operations, verdict):
    """C3. Every write that was taken saw the one before it. The callers are one process: their
    lines are in the order of their actions."""
    last, writer = collections.defaultdict(int), {}
    for event in operations:
        if event["op"] != "write" or event["outcome"] != "ok":
            continue
        lock = lock_of(event)
        if event["saw"] != last[lock]:
            verdict.violated(
                "C3",
                event,
                f"{short(event['hold'])} wrote over {last[lock]} of {short(writer.get(lock, ''))}, "
                f"it had seen {event['saw']}",
            )
        last[lock], writer[lock] = event["wrote"], event["hold"]


def check_tokens(operations, verdict):
    """C4. 202 is not a success: the agent does not know yet."""
    for event in operations:
        if (
            event["op"] == "probe"
            and event["outcome"] == "ok"
            and event.get("status") in (200, 201, 204)
        ):
            verdict.violated(
                "C4", event, f"a {event.get('note')} token was answered {event.get('status')}"
            )


def check_validity(operations, verdict):
    """C5. An answer says until when and for how long: the difference is when it was written, and
    lies between question and answer."""
    lost = {}
    for event in operations:
        hold = (event["key"], event["hold"], event["agent"])
        if event.get("code") == "lock_lost" and event["op"] != "probe":
            lost.setdefault(hold, event["t1"])
        if not reports_hold(event):
            continue
        written = (event["until_ms"] - event["for_ms"]) * 1000
        if event["for_ms"] <= 0:
            verdict.violated(
                "C5", event, f"{short(event['hold'])} is reported held for {event['for_ms']} ms"
            )
        if not event["t0"] - ROUNDING_US <= written <= event["t1"] + ROUNDING_US:
            verdict.violated(
                "C5",
                event,
                f"what is reported was true {(event['t0'] - written) / 1000:.1f} ms "
                "before the question",
            )
        if event["t0"] > lost.get(hold, sys.maxsize):
            verdict.violated(
                "C5", event, f"{short(event['hold'])} is reported held after it was reported lost"
            )


def check_recovery(operations, marks, verdict):
    """C6. The heal mark has the bound, with the agents that must grant again."""
    for mark in marks:
        if mark["op"] == "keys":
            verdict.orphans += len(mark["keys"])
            for key in mark["keys"]:
                verdict.violated(
                    "C6", {"key": key, "t0": mark["t0"]}, f"is still on master {mark['master']}"
                )
        if mark["op"] != "heal":
            continue
        for agent in mark["agents"]:
            took = min(
                (
                    event["t1"] - mark["t0"]
                    for event in operations
                    if event["op"] == "acquire"
                    and event["outcome"] == "ok"
                    and event["agent"] == agent
                    and event["t1"] >= mark["t0"]
                ),
                default=None,
            )
            if took is None or took > mark["within_ms"] * 1000:
                verdict.violated(
                    "C6",
                    mark,
                    f"agent {agent} granted nothing within {mark['within_ms']} ms of healing",
                )
            else:
                verdict.recovery_ms = max(verdict.recovery_ms or 0, took / 1000)


def check_order(operations, fair_us, verdict):
    """C11. A caller that asked at least `fair_us` earlier, and was still waiting well after the
    grant, was overtaken."""
    waits = collections.defaultdict(list)
    for event in operations:
        if (
            event["op"] == "acquire"
            and event.get("wait_ms")
            and event["outcome"] != "info"
            and event.get("code", "") in ("", "wait_timeout")
        ):
            waits[event["key"]].append(event)
    for key, events in waits.items():
        for granted in events:
            if granted["outcome"] != "ok":
                continue
            for other in events:
                waited = min(other["t1"], other["t0"] + other["wait_ms"] * 1000)
                if other["t0"] + fair_us <= granted["t0"] and waited >= granted["t1"] + fair_us:
                    verdict.violated(
                        "C11",
                        {"key": key, "t0": granted["t1"]},
                        f"{short(granted['hold'])} came "
                        f"{(granted['t0'] - other['t0']) / 1000:.1f} ms "
                        f"after {short(other['hold'])}",
                    )


def count(operations, marks, verdict):
    """The figures. A take-over is a grant after a holder that did not release; a loss is one that
    did not expect its end."""
    began = min((mark["t0"] for mark in marks if mark["op"] == "fault"), default=sys.maxsize)
    ended = min((mark["t0"] for mark in marks if mark["op"] == "heal"), default=sys.maxsize)
    released, last = set(), {}
    verdict.operations = len(operations)
    verdict.holds_of_java = len({event["hold"] for event in operations if event["agent"] == JAVA})
    for event in sorted(operations, key=lambda event: event["t1"]):
        op, ok = event["op"], event["outcome"] == "ok"
        verdict.unknown += event["outcome"] == "info"
        if op == "release" and ok:
            released.add(event["hold"])
        if (
            op in ("renew", "look")
            and event["outcome"] == "fail"
            and event.get("code") != "renew_failed"
        ):
            verdict.losses += event.get("status") != 503
        if op == "expire" and event.get("note") != "meant":
            verdict.losses += 1
        if op != "acquire":
            continue
        if event.get("note") == "solo" and began <= event["t0"] and event["t1"] <= ended:
            verdict.solo_asked += 1
            verdict.solo_granted += ok
        if ok:
            verdict.grants += 1
            before = last.get(lock_of(event))
            verdict.take_overs += (
                before is not None
                and before["hold"] not in released
                and not (reads(before) and reads(event))
            )
            last[lock_of(event)] = event


MARKS = ("fault", "heal", "killed", "keys", "step")


def check(history, apart_us=0, fair_us=None):
    """`history`: the events as dicts, those of the callers in the order in which they were written.
    `apart_us`: for agents that keep their numbers apart (A4); such numbers are times, and of two
    holders at once the one that asked first may be answered last, so much later. `fair_us`: the
    agents keep one queue. A caller that came earlier by at least this may not be overtaken."""
    marks = [event for event in history if event["op"] in MARKS]
    operations = [event for event in history if event["op"] not in MARKS]
    verdict = Verdict()
    check_exclusion(operations, marks, verdict)
    check_readers(operations, marks, verdict)
    for rule in (check_register, check_tokens, check_validity):
        rule(operations, verdict)
    if fair_us is not None:
        check_order(operations, fair_us, verdict)
    check_fencing(operations, verdict, apart_us)
    check_recovery(operations, marks, verdict)
    count(operations, marks, verdict)
    return verdict


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.endswith("}\n")]


def main():
    verdict = check([event for path in sys.argv[1:] for event in read(path)])
    for violation in verdict.violations:
        print(violation)
    print(
        f"{verdict.operations} operations, {verdict.grants} grants, "
        f"{verdict.take_overs} take-overs, {verdict.losses} losses, "
        f"{len(verdict.violations)} violations"
    )
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main())
