#!/usr/bin/env python3
"""Which gate catches each rule of a lock (R1 to R25) when it is broken, by what, and how fast.

rules.py check SOURCE   every rule has a mutant for each gate, or a reason why it has none; the
                        items of the list exist; the table of docs/testing.md is that of the list
rules.py measure SOURCE BUILD [RULE...]
                        breaks the rules for each gate, sees them caught, and writes the seconds
rules.py search SOURCE BUILD MUTANT...
                        prints the unit tests that fail with these mutants of the core
rules.py write SOURCE   writes the table of docs/testing.md

The list is rules.txt. The gates: `unit` tests of the core, built with the mutant; the `simulator`
with the first killing seed of tests/sim; the `explorer` with the row of tests/explore/caught.txt.
A rule has one line or more for each gate. A unit test of a script is not measured: it has no way to
replace a text.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
LIST = HERE / "rules.txt"
PLACE = re.compile(r"(<!-- rules -->\n)(.*?)(<!-- end of rules -->\n)", re.S)
GATES = ("unit", "simulator", "explorer")
FAILED = re.compile(r"\[(?:\x1b\[[\d;]*m)?FAIL(?:\x1b\[[\d;]*m)?\] (\w+)::(\w+)")
# Programs of tests/unit that test the core alone.
PROGRAMS = (
    "acquire again renew away waiting admission gather batch restore owner interplay callers "
    "clocks fair round replicas slots readers agreement native core"
).split()


def columns_of(path):
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            yield [column.strip() for column in line.split("|")]


class Lists:
    """The material of the gates: mutants of the core and of the scripts, seeds, rows, tests."""

    def __init__(self, source):
        self.source = source
        sim = source / "tests" / "sim"
        self.mutants = {}  # name: (files or None, options, text, property, seeds)
        for name, files, options, text, prop, seeds in columns_of(sim / "mutants.txt"):
            files = None if files == "-" else files.split()
            self.mutants[name] = (files, options.split(), text, prop, seeds.split())
        self.replaced = {}
        for name, file, old, new, options, text, prop, seeds in columns_of(
            sim / "script_mutants.txt"
        ):
            self.mutants[name] = (None, options.split(), text, prop, seeds.split())
            self.replaced[name] = ["--replace", file, old, new]
        explore = source / "tests" / "explore"
        for name, file, old, new, text in columns_of(explore / "script_mutants.txt"):
            self.mutants[name] = (None, [], text, None, ["none"])
            self.replaced[name] = ["--replace", file, old, new]
        self.rows = dict(columns_of(explore / "caught.txt"))
        self.scripts = set()
        for path in explore.glob("scripts_*.c"):
            self.scripts.update(re.findall(r'\.name = "(\w+)"', path.read_text()))
        self.tests = set()
        for path in (source / "tests" / "unit").glob("test_*.c"):
            program = path.stem.removeprefix("test_")
            for name in re.findall(r"\bTest\(\w+,\s*(\w+)", path.read_text()):
                self.tests.add((program, name))
        headings = re.findall(
            r"^### (R\d+) (.*)$", (source / "docs" / "design.md").read_text(), re.M
        )
        self.rules = {rule: name for rule, name in headings if name != "(kept free)"}


def entries():
    """(rule, gate, mutant or `-`, test or reason, seconds) of each line of the list."""
    return [tuple(row) for row in columns_of(LIST)]


def caught_by(lists, gate, mutant, test):
    """What catches it, for the table."""
    if gate == "simulator":
        return f"seed {lists.mutants[mutant][4][0]}: {lists.mutants[mutant][3]}"
    if gate == "explorer":
        script, faults, prop = lists.rows[mutant].split()
        return f"{script}, {faults}: {prop}"
    if gate == "unit" and mutant in lists.replaced:
        return f"{test} (economy)"
    return test


def problem_of(lists, rule, gate, mutant, test):
    """Why this line of the list does not hold; None: it does."""
    if mutant == "-":
        return None if len(test) > 20 else "no reason"
    if mutant not in lists.mutants:
        return f"{mutant} is no mutant"
    cited = re.findall(r"R\d+", lists.mutants[mutant][2])
    if rule not in cited:
        return f"{mutant} does not break {rule}"
    if gate == "unit" and tuple(test.split(":")) not in lists.tests:
        return f"there is no unit test {test}"
    if gate == "unit" and lists.mutants[mutant][0] is None and mutant not in lists.replaced:
        return f"{mutant} is neither of the core's files nor of the scripts"
    if gate == "simulator" and not lists.mutants[mutant][4][0].isdigit():
        return f"{mutant} has no seed"
    if gate == "explorer" and mutant not in lists.rows:
        return f"{mutant} has no row in tests/explore/caught.txt"
    if gate == "explorer" and lists.rows[mutant].split()[0] not in lists.scripts:
        return f"{lists.rows[mutant]}: there is no such script"
    return None


def render(lists, listed):
    lines = [
        "| rule | gate | broken on purpose | caught by | s |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule, gate, mutant, test, seconds in listed:
        name = f"{rule} {lists.rules[rule]}"
        if mutant == "-":
            lines.append(f"| {name} | {gate} | | {test} | |")
            continue
        text = lists.mutants[mutant][2]
        how = caught_by(lists, gate, mutant, test)
        lines.append(f"| {name} | {gate} | {text} | {how} | {seconds} |")
    return "\n".join(lines) + "\n"


def findings(lists, listed, page):
    """The faults; an empty list: none."""
    found = []
    for rule in lists.rules:
        for gate in GATES:
            mine = [row for row in listed if row[:2] == (rule, gate)]
            if not mine:
                found.append(f"{rule}, {gate}: no line in rules.txt")
    explored = {mutant for _, gate, mutant, _, _ in listed if gate == "explorer"}
    named = {mutant for _, _, mutant, _, _ in listed}
    for name, *_ in columns_of(lists.source / "tests" / "explore" / "script_mutants.txt"):
        if name not in (explored if name in lists.rows else named):
            found.append(f"{name}: no line in rules.txt says what catches it")
    for rule, gate, mutant, test, _ in listed:
        if rule not in lists.rules or gate not in GATES:
            found.append(f"{rule}, {gate}: no such rule or gate")
            continue
        problem = problem_of(lists, rule, gate, mutant, test)
        if problem:
            found.append(f"{rule}, {gate}: {problem}")
    match = PLACE.search(page)
    if not found and (match is None or match[2] != render(lists, listed)):
        found.append("the table of docs/testing.md is not that of rules.txt: rules.py write")
    return found


# ---- seeing it caught ----


def run(command, **more):
    return subprocess.run(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        **more,
    )


def unit_failures(lists, build, mutant, programs):
    """The tests that fail, as `program:test`, with the core's files built with the mutant."""
    commands = json.loads((build / "compile_commands.json").read_text())
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        objects = []
        for file in lists.mutants[mutant][0]:
            command = next(c for c in commands if c["file"].endswith(f"agent/core/{file}"))
            words = shlex.split(command["command"])
            objects.append(f"{folder}/{file}.o")
            words[words.index("-o") + 1] = objects[-1]
            run([*words, f"-DMUTANT_{mutant}=1"], cwd=build).check_returncode()
        for program in programs:
            target = f"tests/unit/test_{program}"
            listed = run(["ninja", "-C", build, "-t", "commands", target]).stdout.splitlines()
            link = shlex.split(listed[-1])
            at = link.index("-o")
            link[at + 1] = f"{folder}/test_{program}"
            run([*link[: at + 2], *objects, *link[at + 2 :]], cwd=build).check_returncode()
            ended = run([link[at + 1], "-j1"], timeout=120)
            failures += [f"{program}:{test}" for _, test in FAILED.findall(ended.stdout)]
    return failures


def is_caught(lists, build, gate, mutant, test):
    """Breaks the rule; true if the gate sees it."""
    if gate == "unit":
        return test in unit_failures(lists, build, mutant, [test.split(":")[0]])
    files, options, _, prop, seeds = lists.mutants[mutant]
    folder = build / "tests" / ("sim" if gate == "simulator" else "explore")
    program = "sim" if gate == "simulator" else "explore"
    if files:
        program += f"_{mutant.lower()}"
        run(["ninja", "-C", build, f"tests/{folder.name}/{program}"]).check_returncode()
    if gate == "simulator":
        more = ["--caught-by", prop, "--runs", "1", "--from", seeds[0]]
    else:
        script, faults, prop = lists.rows[mutant].split()
        options = [] if files or mutant in lists.replaced else options
        more = ["--orders"] if faults == "each" else ["--bound", faults]
        more += ["--long-story", "--caught-by", prop, script]
    replaced = lists.replaced.get(mutant, [])
    begun = time.monotonic()
    ended = run([folder / program, *replaced, *options, *more])
    is_caught.seconds = time.monotonic() - begun
    return ended.returncode == 0


def measure(lists, build, rules):
    head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    lines, passed, failed = [], 0, 0
    for rule, gate, mutant, test, seconds in entries():
        has_program = gate != "unit" or mutant not in lists.replaced
        if mutant != "-" and has_program and (not rules or rule in rules):
            begun = time.monotonic()
            well = is_caught(lists, build, gate, mutant, test)
            took = time.monotonic() - begun if gate == "unit" else is_caught.seconds
            seconds = f"{took:.1f}"
            passed, failed = passed + well, failed + (not well)
            print(f"{rule} {gate} {mutant}: {'caught' if well else 'NOT CAUGHT'}, {seconds} s")
            sys.stdout.flush()
        lines.append(f"{rule} | {gate} | {mutant} | {test} | {seconds}")
    LIST.write_text("\n".join(head + lines) + "\n")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


def main():
    verb, source = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    lists, page = Lists(source), source / "docs" / "testing.md"
    if verb == "check":
        found = findings(lists, entries(), page.read_text())
        print(*found, f"{len(entries()) - len(found)} passed, {len(found)} failed", sep="\n")
        return bool(found)
    if verb == "write":
        table = render(lists, entries())
        page.write_text(PLACE.sub(lambda match: match[1] + table + match[3], page.read_text()))
        return 0
    build = pathlib.Path(sys.argv[3]).resolve()
    if verb == "measure":
        return measure(lists, build, sys.argv[4:])
    for mutant in sys.argv[4:]:
        print(mutant, *unit_failures(lists, build, mutant, PROGRAMS), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
