#!/usr/bin/env python3
"""Measures the part of the core that the simulator's schedules reach: tests/coverage/run.py
BUILD_DIR, built with b_coverage.

Runs the first schedules of each theme, sums the lines and branches of agent/core that were taken,
and fails below the goals. The branches of assertions do not count: one of them is never taken on
purpose. Neither do the functions of excused.txt, each with its reason; an excuse that is not
needed, or names nothing, fails as well. The last line is `N passed, N failed`.
"""
import bisect
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
EXCUSED = pathlib.Path(__file__).parent / "excused.txt"
LINES_PERCENT, BRANCHES_PERCENT = 97.0, 92.0
SCHEDULES = [
    ("sim", ["--runs", "600"]),
    ("sim", ["--forgetful", "--runs", "600"]),
    ("sim", ["--fair", "--runs", "600"]),
    ("sim", ["--fair", "--forgetful", "--runs", "500"]),
    ("sim", ["--roaming", "--runs", "600"]),
    ("sim", ["--in-turn", "--runs", "500"]),
    ("sim", ["--wild-numbers", "--runs", "600"]),
    ("sim", ["--semaphores", "--runs", "500"]),
    ("sim", ["--semaphores", "--roaming", "--runs", "500"]),
    ("sim", ["--rw", "--runs", "600"]),
    ("sim", ["--rw", "--forgetful", "--runs", "500"]),
    ("sim", ["--rw", "--roaming", "--runs", "500"]),
    ("sim", ["--replicas", "--runs", "500"]),
    ("sim", ["--redisson", "--runs", "500"]),
    ("sim", ["--clocks", "--runs", "300"]),
    ("sim", ["--mixed", "--runs", "300"]),
    ("sim", ["--followers", "--runs", "200"]),
    ("sim", ["--followers", "--kinds", "--runs", "200"]),
    ("sim", ["--operator", "--runs", "200"]),
    ("sim", ["--labels", "--runs", "200"]),
    ("sim", ["--labels", "--kinds", "--roaming", "--runs", "200"]),
    ("../guard/guard_world", ["--fresh", "--runs", "100"]),
    ("../guard/guard_world", ["--in-turn", "--runs", "100"]),
    ("../guard/guard_world", ["--forgetful", "--runs", "100"]),
    ("../guard/guard_world", ["--copies", "--runs", "100"]),
    ("../guard/guard_world", ["--leases", "--runs", "100"]),
    ("../guard/guard_world", ["--layouts", "--runs", "100"]),
    ("sim_tight", ["--runs", "1000"]),
]


def measure(build):
    """Each file of the core as gcovr merges its counts: (path, [(function, line)])."""
    told = subprocess.run(
        [
            "gcovr",
            "--root",
            ROOT,
            "--filter",
            "agent/core/",
            "--exclude-branches-by-pattern",
            r".*CORE_ASSERT\(.*",
            "--exclude-lines-by-pattern",
            r".*CORE_ASSERT\(!.*",
            "--json",
            "-",
            build,
        ],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    return [(file["file"], by_function(file)) for file in json.loads(told)["files"]]


def by_function(file):
    starts = sorted((function["lineno"], function["name"]) for function in file["functions"])
    lines = [
        line for line in file["lines"] if not line["gcovr/noncode"] and not line["gcovr/excluded"]
    ]
    return [
        (
            starts[max(bisect.bisect(starts, (line["line_number"], "~")) - 1, 0)][1]
            if starts
            else "",
            line,
        )
        for line in lines
    ]


def excuses():
    """{(file, function)} that need not be reached."""
    rows = [
        line.split("|")
        for line in EXCUSED.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return {(row[0].strip(), row[1].strip()) for row in rows}


class Sum:
    def __init__(self):
        self.lines = self.lines_hit = self.branches = self.branches_hit = 0

    def add(self, line):
        self.lines += 1
        self.lines_hit += line["count"] > 0
        self.branches += len(line["branches"])
        self.branches_hit += sum(branch["count"] > 0 for branch in line["branches"])

    def percent(self):
        return (
            100.0 * self.lines_hit / max(self.lines, 1),
            100.0 * self.branches_hit / max(self.branches, 1),
        )

    def is_whole(self):
        return self.lines == self.lines_hit and self.branches == self.branches_hit


def report(files):
    """Prints the missed parts, file by file; returns the sum and the entries of excused.txt that
    excuse nothing."""
    total, excused, unneeded = Sum(), excuses(), set(excuses())
    for path, lines in sorted(files):
        own, missed, of_excused = Sum(), [], {}
        for function, line in lines:
            place = (path, function)
            if place in excused:
                of_excused.setdefault(place, Sum()).add(line)
                continue
            own.add(line)
            total.add(line)
            if line["count"] == 0:
                missed.append(str(line["line_number"]))
            elif any(branch["count"] == 0 for branch in line["branches"]):
                missed.append(f"{line['line_number']}b")
        unneeded -= {place for place, counted in of_excused.items() if not counted.is_whole()}
        print(
            "%-32s lines %5.1f %%  branches %5.1f %%  %s" % (path, *own.percent(), " ".join(missed))
        )
    return total, unneeded


def main():
    build = pathlib.Path(sys.argv[1])
    for count in build.rglob("*.gcda"):
        count.unlink()
    passed = failed = 0
    for program, options in SCHEDULES:
        ended = subprocess.run(
            [build / "tests" / "sim" / program, *options],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        print(f"{program} {' '.join(options)}: {ended.stdout.strip().splitlines()[-1]}", flush=True)
        passed, failed = passed + (ended.returncode == 0), failed + (ended.returncode != 0)
    total, unneeded = report(measure(build))
    for file, function in sorted(unneeded):
        print(f"excused.txt: {file}: {function}() is reached, or is not there")
    for what, percent, goal in zip(
        ("lines", "branches"), total.percent(), (LINES_PERCENT, BRANCHES_PERCENT)
    ):
        print(f"{what} of agent/core: {percent:.1f} % of them reached, the goal is {goal:.0f} %")
        passed, failed = passed + (percent >= goal), failed + (percent < goal)
    passed, failed = passed + (not unneeded), failed + len(unneeded)
    print(f"{passed} passed, {failed} failed")
    return 0 if failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
