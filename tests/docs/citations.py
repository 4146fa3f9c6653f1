#!/usr/bin/env python3
"""Keeps the citations of the tree true: citations.py [TREE].

1. Every number that a source, a test or a document cites (R7, D5.3, A2, C10, G1) is in
   docs/design.md, as a heading or an anchor.
2. Every relative link of a *.md file names a file that is there, and its #anchor a heading or an
   anchor of that file.

Prints each finding with its place, and `N passed, N failed` (citations and links) at the end.
"""
import pathlib
import re
import sys

DESIGN = "docs/design.md"
PLACES = (".ci", "agent", "api", "config", "deploy", "docs", "tests")  # and the files at the top
LEFT_OUT = ("tests/fuzz/corpus/", "tests/fuzz/dict/", "tests/docs/citations_test.py")

CITATION = re.compile(r"(?<![\w%\\])([ACDGR])(\d+(?:\.\d+)?)(?![\w%])")
TEST_NAME = re.compile(r"\bTest\(\w+,\s*(\w+)")  # r7_nothing_shortens, d3_r11_...
PREFIX = re.compile(r"([a-z])(\d+)_")
OLD_NAME = re.compile(r"\bDESIGN \d")  # a section is cited as D1
# What only looks like one: control characters, encoded bytes, and macros for so many letters.
LOOKALIKE = re.compile(
    r"\bC0, DEL,?(?: and)? C1\b|\bC1 control|%%?[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}|\bA(?:39|40)\b"
)

HEADING = re.compile(r"^(#+) +(.*?) *$")
ANCHOR = re.compile(r'<a id="([^"]+)">')
LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)(?: \"[^\"]*\")?\)")
FENCE = re.compile(r"^ *```")


def files(tree):
    """The text files of the tree, as (path from its top, text)."""
    found = [path for path in tree.iterdir() if path.is_file()]
    for place in PLACES:
        found += (tree / place).rglob("*")
    for path in sorted(found):
        name = str(path.relative_to(tree))
        if not path.is_file() or path.is_symlink() or name.startswith(LEFT_OUT):
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def prose(text):
    """The lines of a document that are not code."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            yield number, line


def slug(heading):
    """The anchor that a heading gets."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def anchors(text):
    found, seen = set(), {}
    for _, line in prose(text):
        found.update(ANCHOR.findall(line))
        if heading := HEADING.match(line):
            name = slug(heading[2])
            seen[name] = seen.get(name, -1) + 1
            found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found


def numbers(design):
    """The definitions of the design: numbers at the start of headings, and numbers as anchors."""
    found = set()
    for _, line in prose(design):
        if heading := HEADING.match(line):
            found.update(re.findall(r"^[ACDGR]\d+(?:\.\d+)?(?= |$)", heading[2]))
        found.update(each.upper() for each in ANCHOR.findall(line))
    return found


def citations(text):
    """(line, number) for all that the text cites."""
    for number, line in enumerate(text.splitlines(), 1):
        for kind, digits in CITATION.findall(LOOKALIKE.sub("", line)):
            yield number, kind + digits
        for name in TEST_NAME.findall(line):
            while prefix := PREFIX.match(name):
                yield number, prefix[1].upper() + prefix[2]
                name = name[prefix.end() :]


def cited_wrongly(name, text, known):
    """How many citations the text has, and the faults of some of them."""
    cited = list(citations(text))
    wrong = [
        f"{name}:{line}: {what} is not in {DESIGN}" for line, what in cited if what not in known
    ]
    wrong += [
        f"{name}:{line}: a section is cited as D1"
        for line, each in enumerate(text.splitlines(), 1)
        if OLD_NAME.search(each)
    ]
    return len(cited), wrong


def linked_wrongly(tree, name, text):
    """How many relative links the document has, and the faults of some of them."""
    count, wrong = 0, []
    for line, each in prose(text):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", each)):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, anchor = target.partition("#")
            linked = (tree / name).parent / path if path else tree / name
            if not linked.exists():
                wrong.append(f"{name}:{line}: {target}: there is no such file")
            elif anchor and anchor not in anchors(linked.read_text(encoding="utf-8")):
                wrong.append(f"{name}:{line}: {target}: there is no such heading")
    return count, wrong


def check(tree):
    """How many citations and links the tree has, and all that is wrong with them."""
    known = numbers((tree / DESIGN).read_text(encoding="utf-8"))
    count, wrong = 0, []
    for name, text in files(tree):
        results = [cited_wrongly(name, text, known)]
        if name.endswith(".md"):
            results.append(linked_wrongly(tree, name, text))
        for found, faults in results:
            count += found
            wrong += faults
    return count, wrong


def main():
    tree = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    count, wrong = check(tree)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"{max(count - len(wrong), 0)} passed, {len(wrong)} failed")
    sys.exit(count == 0 or len(wrong) > 0)


if __name__ == "__main__":
    main()
