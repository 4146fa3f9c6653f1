#!/usr/bin/env python3
"""Refuses work inside an assertion: asserts.py TOP.

Nothing is assigned there, and no function is called but those of the rooms, which are questions by
their names, and a few of the C library."""
import re
import sys

import sources

PURE = {"sizeof", "_Alignof", "strlen", "strcmp", "strncmp", "memcmp", "isdigit"}

_CALL = re.compile(r"\b([a-z_]\w*)\s*\(")
_CHANGE = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)")


def _asserted(text):
    """(line, expression) of every assertion."""
    for match in re.finditer(r"\bCORE_ASSERT\s*\(", text):
        depth, at = 1, match.end()
        while depth > 0 and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield text.count("\n", 0, match.start()) + 1, text[match.end() : at - 1]


def findings(top):
    texts = {path: sources.read(top, path) for path in sources.files(top)}
    if not texts:
        return ["no sources found"]
    own = {name for text in texts.values() for name, *_ in sources.functions(text)}
    found = []
    for path, text in texts.items():
        for line, expression in _asserted(sources.plain(text)):
            called = sorted(set(_CALL.findall(expression)) - own - PURE)
            found += [f"{path}:{line}: {name}() inside an assertion" for name in called]
            if _CHANGE.search(expression):
                found.append(f"{path}:{line}: something is changed inside an assertion")
    return found


if __name__ == "__main__":
    found = findings(sys.argv[1])
    print(*found, f"{len(found)} assertions do work", sep="\n")
    sys.exit(len(found) > 0)
