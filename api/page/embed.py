"""Makes a C header of the status page: embed.py PAGE.html PAGE.css PAGE.js OUT.h

Style and script go into the page. Their hashes go beside it, for the Content-Security-Policy: a
browser then runs only the style and script of the build, and no text that a key or a label might
smuggle in. {{name}} marks text that the agent fills in. The page is cut there into pieces, each
with its slot.
"""

import base64
import hashlib
import re
import sys

COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
SLOT = re.compile(r"\{\{(\w+)\}\}")


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def sha256(text):
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def entry(piece, slot):
    """The text is a list of bytes: a string literal of more than 4,095 is not ISO C."""
    numbers = [str(byte) for byte in piece.encode("ascii") + b"\0"]
    rows = ",\n".join(
        "        " + ",".join(numbers[i : i + 24]) for i in range(0, len(numbers), 24)
    )
    return "    {%s, %d, (const char[]){\n%s}},\n" % (slot, len(piece), rows)


def main(html, css, js, out):
    style, script = read(css), read(js)
    page = COMMENT.sub("", read(html))
    page = page.replace("{{style}}", style, 1).replace("{{script}}", script, 1)
    pieces = SLOT.split(page)
    slots = ["PAGE_" + name.upper() for name in pieces[1::2]]
    with open(out, "w", encoding="ascii") as header:
        header.write("/* Made by embed.py: do not edit. */\n")
        header.write('#define PAGE_STYLE_HASH "%s"\n' % sha256(style))
        header.write('#define PAGE_SCRIPT_HASH "%s"\n' % sha256(script))
        header.write("enum page_slot { %s, PAGE_SLOTS };\n" % ", ".join(dict.fromkeys(slots)))
        header.write("/* A piece, and what comes behind it. */\n")
        header.write("static const struct {\n    enum page_slot slot;\n    size_t len;\n")
        header.write("    const char *html;\n} page_pieces[] = {\n")
        for piece, slot in zip(pieces[::2], slots + ["PAGE_SLOTS"]):
            header.write(entry(piece, slot))
        header.write("};\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
