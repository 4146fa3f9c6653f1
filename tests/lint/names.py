#!/usr/bin/env python3
"""Refuses a name that means two things: names.py TOP.

No function, also a static one, is defined in two files of agent/, api/ and config/, and no struct
or union is. A weak function is there to be defined better elsewhere, and does not count; nor does a
second one of the same file, which is on the other side of an #if.
"""
import collections
import sys

import sources


def findings(top):
    places = collections.defaultdict(dict)
    for path in sources.files(top):
        text = sources.read(top, path)
        for name, line, _, weak in sources.functions(text):
            if not weak:
                places[f"function {name}"].setdefault(path, line)
        for name, line in sources.tags(text):
            places[f"struct {name}"].setdefault(path, line)
    if not places:
        return ["no sources found"]
    return [
        f"{what}: {', '.join(f'{path}:{line}' for path, line in where.items())}"
        for what, where in sorted(places.items())
        if len(where) > 1
    ]


if __name__ == "__main__":
    found = findings(sys.argv[1])
    print(*found, f"{len(found)} names are defined twice", sep="\n")
    sys.exit(len(found) > 0)
