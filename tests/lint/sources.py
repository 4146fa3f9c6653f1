"""The parts of the sources that the lints see: files, functions, tags, includes.

The sources are laid out by clang-format, so no parser is needed: a function's body begins with a {
in the first column and ends with a } there.
"""
import os
import re

ROOMS = ("agent", "api", "config")

_NOISE = re.compile(
    r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'""", re.S | re.X
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
_TAG = re.compile(r"\b(?:struct|union)\s+(\w+)\s*\{")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)


def files(top):
    """Paths of all sources and headers of the rooms, relative to top."""
    found = []
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(top, room)):
            found += [
                os.path.relpath(os.path.join(folder, name), top)
                for name in names
                if name.endswith((".c", ".h"))
            ]
    return sorted(found)


def read(top, path):
    with open(os.path.join(top, path), encoding="utf-8") as file:
        return file.read()


def _blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def plain(text):
    """The text without comments, literals and directives; every line keeps its number."""
    return _DIRECTIVE.sub(_blank, _NOISE.sub(_blank, text))


def functions(text):
    """(name, first line, last line, weak) of every function that is defined in a source."""
    lines = plain(text).split("\n")
    for at, line in enumerate(lines):
        if line.rstrip() != "{":
            continue
        first = at
        while first > 0 and re.search(r"[^\s;}]\s*$", lines[first - 1]):
            first -= 1
        head = " ".join(lines[first:at])
        weak = re.search(r"\b(?:__)?weak(?:__)?\b", head) is not None
        name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head))
        last = next((i for i in range(at, len(lines)) if lines[i].startswith("}")), len(lines) - 1)
        if name:
            yield name.group(1), first + 1, last + 1, weak


def tags(text):
    """(name, line) of every struct or union that is defined in a source."""
    bare = plain(text)
    for match in _TAG.finditer(bare):
        yield match.group(1), bare.count("\n", 0, match.start()) + 1


def includes(top, path):
    """Headers of the rooms that a source includes, as paths relative to top."""
    for name in _INCLUDE.findall(read(top, path)):
        beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
        for header in (name, beside):
            if os.path.exists(os.path.join(top, header)):
                yield header
                break
