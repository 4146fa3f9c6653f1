"""Makes a C header of the Lua scripts: text without comments, and the SHA-1 by which masters know
them.

usage: embed.py OUT.h
       embed.py OUT.h --alone SCRIPT.lua
       embed.py OUT.h --by-form SCRIPT.lua

Each form of a lock (agent/core/types.h) has scripts of its own, made of the same files. A script
begins with `local form = '...'`. The line `-- (common)` is replaced by the parts of its form. If a
script has no such line, the parts follow the first line. A part holds functions and variables at
its top level. A master makes these anew in every call. So a script gets only those that it uses,
and the code of its usual case comes before them. A function or variable of a later part replaces
the one of the same name in an earlier part. For the same reason a line `if form == '...' then ...
end` is left out of the scripts of other forms, and so is a function that nothing else uses. A line
`-- (NAME)` is replaced by the text of NAME.lua.
--alone makes a string of one script that is in no table, named after its file. --by-form makes the
entries of a table of one script: its text for each form.
"""

import hashlib
import os
import re
import sys


FOLDER = os.path.dirname(os.path.abspath(__file__))
# The suffix of the scripts' names, the form, its parts, and its scripts.
FORMS = [
    ("", "plain", "common strings answers", "acquire raise extend release read"),
    ("_fair", "fair", "common strings tickets answers", "acquire release withdraw"),
    ("_slots", "slots", "common strings answers", "acquire release look"),
    (
        "_rw",
        "shared",
        "common tickets entries answers",
        "acquire raise extend release read withdraw",
    ),
    (
        "_redisson",
        "redisson",
        "common strings fields answers",
        "acquire raise extend release read",
    ),
    ("", "", "", "marker"),
]
COMMON = "-- (common)"
PART = re.compile(r"-- \((\w+)\)$")
OF_FORM = re.compile(r"\s*if form == '(\w+)' then .* end$")
FUNCTION = re.compile(r"^local function (\w+)", re.M)
MADE = re.compile(r"local (?:function )?(\w+(?:, \w+)*)")


def path_of(name):
    return os.path.join(FOLDER, name + ".lua")


def lean(path):
    """The script without comments but COMMON, and empty lines; with its parts."""
    with open(path, encoding="ascii") as source:
        lines = [line.split(" -- ")[0].rstrip() for line in source]
    for line in lines:
        part = PART.match(line)
        if line == COMMON or line and not line.lstrip().startswith("--"):
            yield line
        elif part:
            yield from lean(os.path.join(os.path.dirname(path), part[1] + ".lua"))


def pieces(name):
    """The functions and variables at a part's top level: (names, lines) of each."""
    with open(path_of(name), encoding="ascii") as source:
        lines = [line.split(" -- ")[0].rstrip() for line in source]
    found = []
    for line in lines:
        made = MADE.match(line)
        if made:
            found.append((set(made[1].split(", ")), []))
        if line and not line.lstrip().startswith("--"):
            found[-1][1].append(line.strip())
    return found


def words_of(lines):
    """All but those behind a dot, which are of a table."""
    return set(re.findall(r"(?<![.\w])\w+|(?<=\.\.)\w+", "\n".join(lines)))


def used(parts, script):
    """The lines of the parts that the script needs."""
    wanted, kept = words_of(script), []
    for names, lines in reversed([piece for part in parts for piece in pieces(part)]):
        if names & wanted:
            kept = lines + kept
            wanted = wanted - names | words_of(lines) - names
    return kept


def of_form(lines, form):
    """The lines of a script that its form needs."""
    kept = []
    for line in lines:
        other = OF_FORM.match(line)
        if not other or other[1] == form:
            kept.append(line)
    for name in FUNCTION.findall("\n".join(kept)):
        begin = kept.index(
            next(line for line in kept if line.startswith(f"local function {name}("))
        )
        end = kept.index("end", begin) + 1
        if name not in words_of(kept[:begin] + kept[end:]):
            kept = kept[:begin] + kept[end:]
    return kept


def bytes_of(text):
    """As a list of bytes: a string literal of more than 4,095 is not ISO C."""
    numbers = [str(byte) for byte in text + b"\0"]
    return ",\n".join(
        "        " + ",".join(numbers[i : i + 32]) for i in range(0, len(numbers), 32)
    )


def text_of(file, form, parts):
    own = of_form(lean(path_of(file)), form)
    at = own.index(COMMON) if COMMON in own else 0
    lines = own[:at] + used(parts, own) + own[at:]
    first = [f"local form = '{form}'"] if "form" in words_of(lines) else []
    return "".join(line.strip() + "\n" for line in first + lines if line != COMMON).encode("ascii")


def entry(name, text):
    return '    [SCRIPT_%s] = {"%s", "%s", (const char[]){\n%s}},\n' % (
        name.upper(),
        name,
        hashlib.sha1(text).hexdigest(),
        bytes_of(text),
    )


def alone(out, path):
    text = "".join(line.strip() + "\n" for line in lean(path)).encode("ascii")
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        header.write(
            "static const char %s_script[] = {\n" % os.path.splitext(os.path.basename(path))[0]
        )
        header.write(bytes_of(text) + "};\n")


def by_form(out, path):
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        for _, form, parts, _ in FORMS:
            if form:
                text = text_of(os.path.splitext(os.path.basename(path))[0], form, parts.split())
                header.write(f"    [FORM_{form.upper()}] = (const char[]){{\n{bytes_of(text)}}},\n")


def main(out):
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        for suffix, form, parts, scripts in FORMS:
            for script in scripts.split():
                both = script + suffix
                file = both if os.path.exists(path_of(both)) else script
                header.write(entry(both, text_of(file, form, parts.split())))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--alone"]:
        alone(sys.argv[1], sys.argv[3])
    elif sys.argv[2:3] == ["--by-form"]:
        by_form(sys.argv[1], sys.argv[3])
    elif len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        sys.exit(__doc__)
