#!/usr/bin/env python3
"""Keeps the tables of broken rules and assumptions in docs/testing.md equal to the lists of this
folder: table.py PAGE [--write]."""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
PLACE = re.compile(r"(<!-- broken rules -->\n)(.*?)(<!-- end of broken rules -->\n)", re.S)


def rows(name):
    for line in (HERE / name).read_text().splitlines():
        if not line.startswith("#"):
            yield [column.strip() for column in line.split("|")]


def explored():
    """Script, faults and property with which the explorer catches a broken rule, by its name."""
    for name, how in rows("../explore/caught.txt"):
        script, faults, prop = how.split()
        yield name, f"{script}, {faults}: {prop}"


def render():
    found = dict(explored())
    lines = [
        "| broken rule | caught by | schedules it took | explored: script, faults |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {rule} | {caught} | {int(seeds.split()[0]):,} | {found.get(name, '')} |"
        for name, *_, rule, caught, seeds in [*rows("mutants.txt"), *rows("script_mutants.txt")]
    ]
    lines += ["", "| broken assumption | violated | schedules it took |", "| --- | --- | --- |"]
    lines += [
        f"| {assumption}: {what} | {violated} | {int(seeds.split()[0]):,} |"
        for name in ("assumptions.txt", "../guard/assumptions.txt")
        for assumption, _, what, violated, seeds in rows(name)
    ]
    return "\n".join(lines) + "\n"


def main():
    page = pathlib.Path(sys.argv[1])
    text = page.read_text()
    match = PLACE.search(text)
    if "--write" in sys.argv:
        page.write_text(text[: match.start(2)] + render() + text[match.end(2) :])
        return 0
    if match and match[2] == render():
        return 0
    print("the table of docs/testing.md is not that of tests/sim/*.txt; make docs mends it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
