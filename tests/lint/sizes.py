#!/usr/bin/env python3
"""Refuses files and functions of agent/, api/ and config/ that are too long: sizes.py TOP."""
import sys

import sources

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 60


def findings(top):
    paths = sources.files(top)
    if not paths:
        return ["no sources found"]
    found = []
    for path in paths:
        text = sources.read(top, path)
        lines = len(text.splitlines())
        if lines > FILE_LINES_MAX:
            found.append(f"{path}: {lines} lines; allowed: {FILE_LINES_MAX}")
        for name, first, last, _ in sources.functions(text):
            if last - first + 1 > FUNCTION_LINES_MAX:
                found.append(
                    f"{path}:{first}: {name}() has {last - first + 1} lines; "
                    f"allowed: {FUNCTION_LINES_MAX}"
                )
    return found


if __name__ == "__main__":
    found = findings(sys.argv[1])
    print(*found, f"{len(found)} are too long", sep="\n")
    sys.exit(len(found) > 0)
