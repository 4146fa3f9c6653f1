"""Makes a C header of the Lua scripts: text without comments, and the SHA-1 by which masters know it.

usage: embed.py OUT.h COMMON.lua SCRIPT.lua ... --fair TICKETS.lua SCRIPT.lua ...

Those behind --fair get TICKETS.lua in front as well, and _FAIR to their names.
"""

import hashlib
import os
import sys

def lean(path):
    """The script without comment lines, indentation and empty lines."""
    with open(path, encoding="ascii") as source:
        lines = (line.split(" -- ")[0].strip() for line in source)
        return [line for line in lines if line and not line.startswith("--")]


def entry(name, paths):
    """The text is a list of bytes: a string literal of more than 4,095 is not ISO C."""
    text = "".join(line + "\n" for path in paths for line in lean(path)).encode("ascii")
    sha = hashlib.sha1(text).hexdigest()
    numbers = [str(byte) for byte in text + b"\0"]
    rows = ",\n".join("        " + ",".join(numbers[i : i + 32]) for i in range(0, len(numbers), 32))
    return '    [SCRIPT_%s] = {"%s", "%s", (const char[]){\n%s}},\n' % (name.upper(), name, sha, rows)


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
            header.write(entry(name_of(path), [common, path]))
        for path in fair:
            header.write(entry(name_of(path) + "_fair", [common, tickets, path]))


if __name__ == "__main__":
    main(*sys.argv[1:])
