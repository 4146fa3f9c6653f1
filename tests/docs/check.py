#!/usr/bin/env python3
"""Keeps README.md, docs/ and the manual page true: check.py LOCKAGENT [--write]

Transcripts are ```console blocks. Bash runs the lines that begin with `$ `, page after page in one
shell, over an agent and five masters that deploy/local/run.sh started on free ports; what follows
must be their output. A block of another kind below `<!-- file: NAME -->` is a file of that shell's
folder from there on. Numbers and tokens vary from run to run, so both sides are compared with every
token as TOKEN and every other number but those of status lines and "status" members as N; but what
`lockagent capacity` reckons is compared as it is.

Tables between `<!-- table: NAME -->` and `<!-- end -->` are what `lockagent docs NAME` prints. The
manual page has its tables from the documents (manual.py). --write mends outputs that differ, and
tables. Sizes of lines and the names of the faults are compared alone.
"""
import os
import re
import signal
import subprocess
import sys

import manual
from session import ROOT, Session

README_LINES, COLUMNS = 200, 120
BLOCK = re.compile(r"(<!-- file: (\S+) -->\n```\w*\n)?(?(1)|```console\n)(.*?)```\n", re.S)
TABLE = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->\n)", re.S)
FAULTS = re.compile(r"<!-- faults: .*? -->\n(.*?)<!-- end of faults -->\n", re.S)
RECKONED = "lockagent capacity "  # its numbers are the same in each run
LETTERS = str.maketrans("0123456789", "abcdefghij")


def pages():
    """The README first, as a reader comes; last the page that ends masters."""
    docs = sorted((ROOT / "docs").glob("*.md"), key=lambda page: (page.name == "failures.md", page))
    return [ROOT / "README.md", *docs]


class Judge:
    """Counts the true statements, and prints the others."""

    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, name, good, detail):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAILED {name}\n{detail}")


# What `lockagent run` says of masters that are not ready when it asks, on a busy machine.
WAITS = re.compile(r"^lockagent run: waits: group main: waits until its masters have .*\n?", re.M)


def normalized(text):
    text = re.sub(r"[0-9a-f]{40}\.\d+", "TOKEN", WAITS.sub("", text))
    lines = []
    for line in text.strip("\n").split("\n"):
        if not line.startswith("HTTP/"):
            line = re.sub(r'("status":\s*)(\d+)', lambda m: m[1] + m[2].translate(LETTERS), line)
            line = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", line)
        lines.append(line.rstrip())
    return "\n".join(lines)


def split_block(block):
    """[(command, expected output)]; a command goes on while its line ends with a backslash."""
    steps = []
    lines = block.split("\n")
    while lines:
        line = lines.pop(0)
        if line.startswith("$ "):
            command = line[2:]
            while command.endswith("\\"):
                command += "\n" + lines.pop(0)
            steps.append([command, ""])
        elif steps:
            steps[-1][1] += line + "\n"
    return steps


def check_size(name, text, judge):
    """A row of a table cannot be broken, and may be longer; not one of the README."""
    is_readme = name == "README.md"
    lines = text.splitlines()
    if is_readme:
        judge(f"{name}, lines", len(lines) <= README_LINES, f"{len(lines)}, not {README_LINES}")
    long = [
        f"{name}:{number}: {len(line)} columns, not {COLUMNS}"
        for number, line in enumerate(lines, 1)
        if len(line) > COLUMNS and (is_readme or not line.startswith("|"))
    ]
    judge(f"{name}, columns", not long, "\n".join(long))


def check_faults(name, text, judge):
    """Their figures are from a run of minutes; that none is missing can be seen at once."""
    for table in FAULTS.findall(text):
        shown = set(re.findall(r"^\| (.+?) \|", table, re.M)[2:])
        command = [ROOT / "tests/faults/run.py", ".", "--all", "--list"]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        apart = shown ^ set(out.splitlines())
        judge(f"{name}, faults", not apart, f"not as in tests/faults: {', '.join(sorted(apart))}")


def check_tables(name, text, lockagent, write, judge):
    def table(match):
        command = [lockagent, "docs", match[2]]
        real = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        judge(
            f"{name}, table {match[2]}",
            write or real.strip() == match[3].strip(),
            f"it is not what `lockagent docs {match[2]}` prints; make docs mends it",
        )
        return match[1] + real.strip("\n") + "\n" + match[4]

    return TABLE.sub(table, text)


def check_transcripts(name, text, session, write, judge):
    def block(match):
        if match[2]:
            session.write(match[2], match[3])
            return match[0]
        out = ""
        for command, expected in split_block(match[3]):
            real = session.run(command)
            compared = str.strip if command.startswith(RECKONED) else normalized
            good = compared(real) == compared(expected)
            judge(f"{name}: $ {command}", write or good, f"shown:\n{expected}\nreal:\n{real}\n")
            shown = expected.strip("\n") if good else real
            out += f"$ {command}\n" + (shown + "\n" if shown else "")
        return f"```console\n{out}```\n"

    return BLOCK.sub(block, text)


def main():
    lockagent, write, judge = os.path.abspath(sys.argv[1]), "--write" in sys.argv, Judge()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # out of time: the children end too
    session = Session(lockagent)
    try:
        job = session.printed("run -n")
        said = session.run(job)
        judge("the cron line that make run prints", said == "done", f"$ {job}\n{said}")
        for page in pages():
            text = check_tables(page.name, page.read_text(), lockagent, write, judge)
            text = check_transcripts(page.name, text, session, write, judge)
            check_faults(page.name, text, judge)
            check_size(page.name, text, judge)
            if write:
                page.write_text(text)
    finally:
        session.close()
    manual.check(lockagent, write, judge)
    print(f"{judge.passed} passed, {judge.failed} failed")
    return judge.failed != 0


if __name__ == "__main__":
    sys.exit(main())
