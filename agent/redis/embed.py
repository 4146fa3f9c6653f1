"""Makes a C header of the Lua scripts: text without comments, and the SHA-1 by which masters know
it.

usage: embed.py OUT.h COMMON.lua SCRIPT.lua ... --fair TICKETS.lua SCRIPT.lua ...

COMMON.lua goes to where a script says `-- (common)`, else to its beginning: a master makes the
functions of it anew in every call, so what is usual stands in front of them. Those behind --fair
get TICKETS.lua behind COMMON.lua as well, and _FAIR to their names. A script that asks which of
both it is says `-- (fair)`: there stands `local fair = true`, or false.
"""

import hashlib
import os
import sys


COMMON, FAIR = "-- (common)", "-- (fair)"


def lean(path):
    """The script without comments but COMMON and FAIR, indentation and empty lines."""
    with open(path, encoding="ascii") as source:
        lines = [line.split(" -- ")[0].strip() for line in source]
    return [line for line in lines if line in (COMMON, FAIR) or line and not line.startswith("--")]


def entry(name, shared, path, fair):
    """The text is a list of bytes: a string literal of more than 4,095 is not ISO C."""
    own = ["local fair = " + fair if line == FAIR else line for line in lean(path)]
    at = own.index(COMMON) if COMMON in own else 0
    lines = own[:at] + [line for other in shared for line in lean(other)] + own[at:]
    text = "".join(line + "\n" for line in lines if line != COMMON).encode("ascii")
    sha = hashlib.sha1(text).hexdigest()
    numbers = [str(byte) for byte in text + b"\0"]
    rows = ",\n".join(
        "        " + ",".join(numbers[i : i + 32]) for i in range(0, len(numbers), 32)
    )
    return '    [SCRIPT_%s] = {"%s", "%s", (const char[]){\n%s}},\n' % (
        name.upper(),
        name,
        sha,
        rows,
    )


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def main(out, common, *scripts):
    if not out.endswith(".h") or "--fair" not in scripts:
        sys.exit(__doc__)
    split = scripts.index("--fair")
    tickets, *fair = scripts[split + 1 :]
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        for path in scripts[:split]:
            header.write(entry(name_of(path), [common], path, "false"))
        for path in fair:
            header.write(entry(name_of(path) + "_fair", [common, tickets], path, "true"))


if __name__ == "__main__":
    main(*sys.argv[1:])
