#!/usr/bin/env python3
"""Whether docs/performance.md was measured with this program: program.py.

Prints the program's sources, and exits with 1 if the page names others. A release has figures of
its own program, so `make release-notes` asks.
"""
import hashlib
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
ROOMS = ("agent", "api", "config")
NAMED = re.compile(r"of the sources `([0-9a-f]{12})`")


def sources(top=TOP):
    """A digest of the files of which the program is built."""
    digest = hashlib.sha256()
    for room in ROOMS:
        for path in sorted((top / room).rglob("*")):
            if path.suffix in (".c", ".h", ".lua"):
                digest.update(f"{path.relative_to(top)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def fault(page, program):
    """The fault of a page that is to be of the program; "": none."""
    named = NAMED.search(" ".join(page.split()))
    if named and named.group(1) == program:
        return ""
    other = f"of the sources {named.group(1)}" if named else "of unknown sources"
    return f"docs/performance.md is {other}, and these are {program}: make bench WRITE=1"


def main():
    program = sources()
    wrong = fault((TOP / "docs/performance.md").read_text(), program)
    print(wrong or f"docs/performance.md is of these sources, {program}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
