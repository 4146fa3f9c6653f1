"""Makes a C header of the Lua scripts: text without comments, and the SHA-1 by which masters know
it.

usage: embed.py OUT.h COMMON.lua SCRIPT.lua ... --fair TICKETS.lua SCRIPT.lua ...
       --slots SCRIPT.lua ... --rw ENTRIES.lua SCRIPT.lua ... --redisson FIELDS.lua SCRIPT.lua ...
       embed.py OUT.h --alone SCRIPT.lua

COMMON.lua goes to where a script says `-- (common)`, else to its beginning: a master makes the
functions of it anew in every call, so what is usual stands in front of them. Those behind --fair
get TICKETS.lua behind COMMON.lua as well, and _FAIR to their names; those behind --slots get _SLOTS
to theirs; those behind --rw get COMMON, TICKETS and ENTRIES; those behind --redisson get FIELDS
behind COMMON, and _REDISSON to their names. A script that asks which of them it is says
`-- (kind)`: there stands `local fair, slots = true, false`, or whatever it is. Where one says
`-- (NAME)`, the text of NAME.lua beside it stands. --alone makes a string of one script that no
table has, named after its file.
"""

import hashlib
import os
import re
import sys


COMMON, KIND = "-- (common)", "-- (kind)"
PART = re.compile(r"-- \((\w+)\)$")


def lean(path):
    """The script without comments but COMMON and KIND, indentation and empty lines; with its
    parts."""
    with open(path, encoding="ascii") as source:
        lines = [line.split(" -- ")[0].strip() for line in source]
    for line in lines:
        part = PART.match(line)
        if line in (COMMON, KIND) or line and not line.startswith("--"):
            yield line
        elif part:
            yield from lean(os.path.join(os.path.dirname(path), part[1] + ".lua"))


def bytes_of(text):
    """As a list of bytes: a string literal of more than 4,095 is not ISO C."""
    numbers = [str(byte) for byte in text + b"\0"]
    return ",\n".join(
        "        " + ",".join(numbers[i : i + 32]) for i in range(0, len(numbers), 32)
    )


def entry(name, shared, path, kind):
    own = ["local fair, slots = " + kind if line == KIND else line for line in lean(path)]
    at = own.index(COMMON) if COMMON in own else 0
    lines = own[:at] + [line for other in shared for line in lean(other)] + own[at:]
    text = "".join(line + "\n" for line in lines if line != COMMON).encode("ascii")
    sha = hashlib.sha1(text).hexdigest()
    return '    [SCRIPT_%s] = {"%s", "%s", (const char[]){\n%s}},\n' % (
        name.upper(),
        name,
        sha,
        bytes_of(text),
    )


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def alone(out, path):
    text = "".join(line + "\n" for line in lean(path)).encode("ascii")
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        header.write("static const char %s_script[] = {\n" % name_of(path))
        header.write(bytes_of(text) + "};\n")


def main(out, common, *scripts):
    modes = ("--fair", "--slots", "--rw", "--redisson")
    marks = [scripts.index(mark) for mark in modes if mark in scripts]
    if not out.endswith(".h") or len(marks) != len(modes):
        sys.exit(__doc__)
    tickets, *fair = scripts[marks[0] + 1 : marks[1]]
    slots = scripts[marks[1] + 1 : marks[2]]
    entries, *rw = scripts[marks[2] + 1 : marks[3]]
    fields, *redisson = scripts[marks[3] + 1 :]
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        for path in scripts[: marks[0]]:
            header.write(entry(name_of(path), [common], path, "false, false"))
        for path in fair:
            header.write(entry(name_of(path) + "_fair", [common, tickets], path, "true, false"))
        for path in slots:
            header.write(entry(name_of(path) + "_slots", [common], path, "false, true"))
        for path in rw:
            header.write(entry(name_of(path), [common, tickets, entries], path, "true, false"))
        for path in redisson:
            name = name_of(path).removesuffix("_redisson") + "_redisson"
            header.write(entry(name, [common, fields], path, "false, false"))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--alone"]:
        alone(sys.argv[1], sys.argv[3])
    else:
        main(*sys.argv[1:])
