#!/usr/bin/env python3
"""Finds the scripts that catch broken rules: tests/explore/find.py BUILD_DIR [NAME...].

Each mutant of tests/sim, tests/guard and script_mutants.txt is given to every script: first
without a fault, then also in `each` order of delivery, then with one fault. The first violation is
written to caught.txt. It is a violation of the property that the simulator names if that comes
first in any script of the bound, otherwise of another one. SECONDS of the processor's time are the
limit of each script with one fault (20); BOUNDS and SCRIPTS narrow it.
The mutants are built by `ninja -C BUILD_DIR explore_mutants guard_mutants`.
"""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
SECONDS = os.environ.get("SECONDS") or "20"
SCRIPTS = (os.environ.get("SCRIPTS") or "").split()
BOUNDS = (os.environ.get("BOUNDS") or "0 each 1").split()
CAUGHT = re.compile(r"^caught by (\S+) in (\S+)$", re.M)


def rows(name):
    for line in (HERE.parent / "sim" / name).read_text().splitlines():
        if not line.startswith("#"):
            yield [column.strip() for column in line.split("|")]


def mutants(build):
    """(name, command, property) of each."""
    guard = build.parent / "guard"
    for name, files, options, _, prop, _ in rows("mutants.txt"):
        if files == "-":
            yield name, [build / "explore", "--long-story", *options.split()], prop
        else:
            yield name, [build / f"explore_{name.lower()}", "--long-story"], prop
    for name, file, text, by, _, _, prop, _ in rows("script_mutants.txt"):
        yield name, [build / "explore", "--long-story", "--replace", file, text, by], prop
    for name, file, text, by, _ in rows("../explore/script_mutants.txt"):
        yield name, [build / "explore", "--long-story", "--replace", file, text, by], "?"
    for name, _, _, prop, _ in rows("../guard/mutants.txt"):
        yield f"GUARD_{name}", [guard / f"guard_world_{name.lower()}", "--search"], prop
    for name, file, _, text, by, prop, _ in rows("../guard/scripts.txt"):
        broken = ["--break", file, text, by]
        yield f"guard: {name}", [guard / "guard_world", "--search", *broken], prop


def search(command, prop):
    """What catches it: script, bound and property; None: nothing did."""
    for bound in BOUNDS:
        if bound == "each" and "guard_world" in command[0].name:
            continue
        limit = ["--seconds", SECONDS if bound == "1" else "60"]
        how = ["--orders"] if bound == "each" else ["--bound", bound]
        ended = subprocess.run(
            [*command, *how, "--first", *limit, *SCRIPTS],
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
        )
        found = CAUGHT.findall(ended.stdout)
        for caught, script in sorted(found, key=lambda one: one[0] != prop):
            return f"{script} {bound} {caught}"
    return None


def main():
    build = pathlib.Path(sys.argv[1]) / "tests" / "explore"
    names = sys.argv[2:]
    path = HERE / "caught.txt"
    lines = path.read_text().splitlines()
    head = [line for line in lines if line.startswith("#")]
    known = dict(line.split(" | ") for line in lines if not line.startswith("#"))
    for name, command, prop in mutants(build):
        if names and name not in names:
            continue
        how = search(command, prop)
        if how or not SCRIPTS:
            known.pop(name, None)
        if how:
            known[name] = how
        print(name, "|", how or "-", flush=True)
        path.write_text("\n".join(head + [f"{n} | {known[n]}" for n in sorted(known)]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
