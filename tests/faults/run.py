#!/usr/bin/env python3
"""The fault suite: real agents, real masters, and one fault after the other, with a checker over
the answers of the callers.

run.py BUILD_DIR [--seed N] [--all] [--for SECONDS] [--only PART] [--tls] [--memory MIB]
[--list] [--markdown]

Each fault gets a world of its own: callers work for a moment, the fault comes and goes, every agent
must grant again in time, the callers go, and no key may be left. One of each class comes once; with
--all every fault, and with --for all of them in random order, with a new seed each time, until the
time is over. A row that failed prints its seed; --seed N --only PART repeats it. With --tls the
masters of all rows are reached over TLS. --memory is the growth that an agent may show while
masters are hostile. The last line is `N passed, N failed`.
"""
import argparse
import contextlib
import os
import random
import resource
import signal
import sys
import time

import checker
from catalogue import FAULTS
from means import Failure, Skipped
from world import World

WARM_S = 0.7
KINDS_S = 2.5  # after the fault, for holds of each kind beside others
ROUND_US = 100000  # an acquire, from its number to its answer: twice the node_timeout at the most
SHARE_WANTED = 0.999  # of the acquires of uncontended keys, with two of five masters gone
COLUMNS = (
    "fault",
    "grants",
    "take-overs",
    "losses",
    "violations",
    "solo (%)",
    "heal (ms)",
    "orphans",
    "s",
)
PLAIN = "{:6} {:38} {:>6} {:>10} {:>6} {:>10} {:>8} {:>9} {:>7} {:>5}"
MARKDOWN = "| {1} | {2} | {3} | {4} | {5} | {6} | {7} | {8} |"  # as docs/testing.md has it

EXCUSED = {"A5": ("C1", "C2", "C3", "C4")}  # by the assumption; of any other just a second holder


class Sums:
    """The figures of the whole suite."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.operations = (
            self.grants
        ) = self.take_overs = self.losses = self.unknown = self.violations = self.orphans = 0
        self.recovery_ms, self.tagged = [], {}
        self.asked = self.granted = 0

    def add(self, fault, verdict, broken):
        for name in ("operations", "grants", "take_overs", "losses", "unknown", "orphans"):
            setattr(self, name, getattr(self, name) + getattr(verdict, name))
        if fault.breaks:
            self.tagged[fault.breaks] = (
                self.tagged.get(fault.breaks, 0) + len(verdict.violations) - len(broken)
            )
        self.violations += len(broken)
        if verdict.recovery_ms is not None:
            self.recovery_ms.append(verdict.recovery_ms)
        if fault.minority:
            self.asked += verdict.solo_asked
            self.granted += verdict.solo_granted

    def show(self):
        tagged = ", ".join(f"{count} ({name})" for name, count in sorted(self.tagged.items()))
        recovery = sorted(self.recovery_ms)
        print(
            f"\n{self.operations} operations, {self.unknown} of them without an answer\n"
            f"{self.grants} grants, {self.take_overs} take-overs, {self.losses} losses\n"
            f"{self.violations} violations\n{self.orphans} orphaned keys"
        )
        if tagged:
            print(f"violations where an assumption was broken: {tagged}")
        if recovery:
            print(
                "from healing to the next grant of the slowest agent: "
                f"median {recovery[len(recovery) // 2]:.0f} ms, most {recovery[-1]:.0f} ms"
            )
        if self.asked:
            share = self.granted / self.asked
            print(
                "acquires that succeed with 2 of 5 masters down: "
                f"{self.granted} of {self.asked}, {100 * share:.2f} %"
            )
            good = share >= SHARE_WANTED
            self.passed, self.failed = self.passed + good, self.failed + (not good)
        if self.skipped:
            print(f"skipped: {self.skipped}, see above")
        print(f"{self.passed} passed, {self.failed} failed")


def play(build, fault, seed):
    """Returns the verdict, and another error (or None)."""
    with contextlib.closing(fault.stage(build, seed, **fault.world)) as world:
        trouble = None
        time.sleep(WARM_S)
        try:
            world.mark("fault", what=fault.name)
            fault.inject(world)
            world.clear_weather()
            world.mark("heal", agents=list(range(world.agents)), within_ms=fault.within_ms)
            world.await_grants(fault.within_ms)
            time.sleep(KINDS_S if world.kinds else 0.3)
            world.stop_callers()
            if fault.orphans:
                world.look_for_orphans()
            world.stop_agents()
        except Failure as failure:
            trouble = str(failure)
        apart_us = ROUND_US if fault.breaks == "A4" else 0
        verdict = checker.check(world.whole_history(), apart_us, fault.fair_us)
        if world.java and not (trouble or verdict.holds_of_java):
            trouble = "the Java service held nothing"
        if world.kinds and not (trouble or len(+verdict.kinds) == 3):
            trouble = f"not all kinds have been held: {dict(verdict.kinds)}"
        return verdict, trouble


def row(build, fault, seed, sums, layout):
    began = time.monotonic()
    try:
        verdict, trouble = play(build, fault, seed)
    except Skipped as why:
        sums.skipped += 1
        print(f"skipped {fault.name}: {why}", flush=True)
        return
    except Failure as failure:
        verdict, trouble = checker.Verdict(), str(failure)
    excused = EXCUSED.get(fault.breaks, ("C1",)) if fault.breaks else ()
    broken = [each for each in verdict.violations if not each.startswith(excused)]
    sums.add(fault, verdict, broken)
    if not trouble and verdict.grants == 0:
        trouble = "nothing was granted at all"
    good = not trouble and not broken
    sums.passed, sums.failed = sums.passed + good, sums.failed + (not good)
    tag = f" ({fault.breaks})" if fault.breaks else ""
    recovery = "-" if verdict.recovery_ms is None else f"{verdict.recovery_ms:.0f}"
    share = f"{100 * verdict.solo_granted / verdict.solo_asked:.1f}" if verdict.solo_asked else "-"
    print(
        layout.format(
            "ok" if good else "FAILED",
            fault.name,
            verdict.grants,
            verdict.take_overs,
            verdict.losses,
            f"{len(verdict.violations)}{tag}",
            share,
            recovery,
            verdict.orphans,
            f"{time.monotonic() - began:.1f}",
        ),
        flush=True,
    )
    if not good:
        print(f"       --seed {seed} --only '{fault.name}'")
        for line in ([trouble] if trouble else []) + broken[:20]:
            print(f"       {line}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--for", type=float, dest="seconds")
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--memory", type=int, default=World.memory_kib >> 10)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    whole = options.all or options.only or options.seconds
    faults = [each for each in FAULTS if options.only in each.name and (whole or not each.more)]
    if options.list:
        print("\n".join(each.name for each in faults))
        return 0
    World.memory_kib = options.memory << 10
    World.all_over_tls = options.tls
    # The world is closed on every way out.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(files, 4096), most), most))
    order, sums, until = (
        random.Random(options.seed),
        Sums(),
        time.monotonic() + (options.seconds or 0),
    )
    layout = MARKDOWN if options.markdown else PLAIN
    print(f"seed {options.seed}\n" + layout.format("", *COLUMNS), flush=True)
    seed = options.seed
    while True:
        for each in order.sample(faults, len(faults)) if options.seconds else faults:
            if options.seconds and time.monotonic() > until:
                break
            row(os.path.abspath(options.build), each, seed, sums, layout)
            seed += 1 if options.seconds else 0
        if not options.seconds or time.monotonic() > until:
            break
    if len(faults) < len(FAULTS) and not options.only:
        print(f"\n{len(FAULTS) - len(faults)} more of the same classes: --all, or make faults-long")
    sums.show()
    return 0 if sums.passed and not sums.failed else 1


if __name__ == "__main__":
    sys.exit(main())
