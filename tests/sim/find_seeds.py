#!/usr/bin/env python3
"""Finds the killing seeds of the simulator's mutants and broken assumptions again:
tests/sim/find_seeds.py BUILD_DIR [NAME...].

To be run when the schedule of a seed has changed (a draw of tests/sim, a timing of the core) or a
mutant was added with `?` for its columns. Each is searched from seed 1 on for SEEDS violations
of the property that is to catch it (`?`: of the first property that is violated), and the last
two columns of mutants.txt, script_mutants.txt and assumptions.txt are written anew. Exits with 1
when one was not caught in RUNS schedules.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SEEDS = 2
RUNS = int(os.environ.get("RUNS") or 200_000)
ASSERTED = re.compile(r"^seed (\d+): at \S+ s: assertion: ", re.M)
CAUGHT = re.compile(r"^caught by (\S+) with seed (\d+)$", re.M)


def search(program, options, prop):
    """The property and the first seeds that show its violation."""
    seeds, start = [], 1
    while len(seeds) < SEEDS and start < RUNS:
        args = [
            program,
            *options,
            "--expect-violation",
            "--runs",
            str(RUNS - start),
            "--from",
            str(start),
        ]
        if prop != "?":
            args += ["--caught-by", prop]
        ended = subprocess.run(args, stdout=subprocess.PIPE, text=True, check=False)
        caught, asserted = CAUGHT.search(ended.stdout), ASSERTED.search(ended.stdout)
        if not caught and asserted:  # the core noticed by itself, and ended the run
            start = int(asserted.group(1)) + 1
            continue
        if not caught:
            break
        prop = caught.group(1)
        seeds.append(caught.group(2))
        start = int(caught.group(2)) + 1
    return prop, seeds


def refresh(path, names, command):
    """Rewrites one table; returns the names that were not caught."""

    def found(line):
        columns = [column.strip() for column in line.split("|")]
        if line.startswith("#") or (names and columns[0] not in names and columns[1] not in names):
            return line, None
        prop, seeds = search(*command(columns), columns[-2])
        columns[-2:] = [prop, " ".join(seeds) or "?"]
        line = re.sub(" +", " ", " | ".join(columns))
        print(line, flush=True)
        return line, None if seeds else columns[0]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lines = list(pool.map(found, path.read_text().splitlines()))
    path.write_text("\n".join(line for line, _ in lines) + "\n")
    return [name for _, name in lines if name is not None]


def main():
    build = pathlib.Path(sys.argv[1]) / "tests" / "sim"
    names = sys.argv[2:]

    def mutant(columns):
        return (
            build / ("sim" if columns[1] == "-" else f"sim_{columns[0].lower()}"),
            columns[2].split(),
        )

    def script_mutant(columns):
        return build / "sim", ["--replace", *columns[1:4], *columns[4].split()]

    def assumption(columns):
        return build / "sim", ["--break", *columns[1].split()]

    missed = refresh(HERE / "mutants.txt", names, mutant) + refresh(
        HERE / "script_mutants.txt", names, script_mutant
    )
    missed += refresh(HERE / "assumptions.txt", names, assumption)
    for name in missed:
        print(f"{name}: not caught in {RUNS} schedules", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
