#!/usr/bin/env python3
"""Finds the killing seeds of the guard's mutants and of its broken scripts again:
tests/guard/find_seeds.py BUILD_DIR [NAME...].

The last two columns of mutants.txt, scripts.txt and assumptions.txt are written anew, as
tests/sim/find_seeds.py does with its own tables.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "sim"))
import find_seeds  # noqa: E402

find_seeds.RUNS = 5_000


def refresh(path, names, command):
    lines, missed = [], []
    for line in path.read_text().splitlines():
        columns = [column.strip() for column in line.split("|")]
        by_schedule = not line.startswith("#") and columns[-2] != "test_guard"
        if by_schedule and (not names or columns[0] in names):
            prop, seeds = find_seeds.search(*command(columns), columns[-2])
            columns[-2:] = [prop, " ".join(seeds) or "?"]
            line = re.sub(" +", " ", " | ".join(columns))
            print(line, flush=True)
            if not seeds:
                missed.append(columns[0])
        lines.append(line)
    path.write_text("\n".join(lines) + "\n")
    return missed


def main():
    build, names = pathlib.Path(sys.argv[1]) / "tests" / "guard", sys.argv[2:]
    missed = refresh(
        HERE / "mutants.txt", names, lambda c: (build / f"guard_world_{c[0].lower()}", c[1].split())
    )
    missed += refresh(
        HERE / "scripts.txt",
        names,
        lambda c: (build / "guard_world", [*c[2].split(), "--break", c[1], *c[3:5]]),
    )
    missed += refresh(
        HERE / "assumptions.txt",
        names,
        lambda c: (build / "guard_world", [*c[1].split(), "--break", c[0]]),
    )
    for name in missed:
        print(f"{name}: not caught", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
