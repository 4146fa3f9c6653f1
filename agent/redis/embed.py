"""Makes a C header of the Lua scripts: text without comments, and the SHA-1 by which masters know it.

usage: embed.py OUT.h COMMON.lua SCRIPT.lua ...
"""

import hashlib
import os
import sys

# What an ISO C compiler must take as one string literal.
LITERAL_BYTES_MAX = 4095


def lean(path):
    """The script without comment lines, indentation and empty lines."""
    with open(path, encoding="ascii") as source:
        lines = (line.split(" -- ")[0].strip() for line in source)
        return [line for line in lines if line and not line.startswith("--")]


def literal(lines):
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return "\n".join('        "%s\\n"' % line for line in escaped)


def main(out, common, *scripts):
    if not out.endswith(".h"):
        sys.exit(__doc__)
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        for path in scripts:
            lines = lean(common) + lean(path)
            text = "".join(line + "\n" for line in lines)
            if len(text) > LITERAL_BYTES_MAX:
                sys.exit("%s: %d bytes do not fit one string literal" % (path, len(text)))
            name = os.path.splitext(os.path.basename(path))[0]
            sha = hashlib.sha1(text.encode("ascii")).hexdigest()
            header.write('    [SCRIPT_%s] = {\n        "%s", "%s",\n%s},\n' % (name.upper(), name, sha, literal(lines)))


if __name__ == "__main__":
    main(*sys.argv[1:])
