#!/usr/bin/env python3
"""The check of citations and links on small trees made by hand: each with the expected
findings, and no others."""
import pathlib
import sys
import tempfile

import citations

DESIGN = """# Design
## D5 Masters
### D5.3 The guard
- <a id="a1"></a>**A1** clocks
### R7 Renewal
#### R12 `fence`
- <a id="c10"></a>**C10** deletions
```
<a id="g2"></a>
```
"""

# A file, its text, and the findings in it (each by a part of it).
CASES = {
    "what is there": ("agent/a.c", "/* R7, D5.3 and A1: as R12 says (C10). */", []),
    "an invented rule": ("agent/a.c", "/* R99 */", ["a.c:1: R99"]),
    "an invented section": ("tests/a.py", "# D5.9", ["a.py:1: D5.9"]),
    "an invented assumption": ("config/a.h", "\n/* (A7) */", ["a.h:2: A7"]),
    "an invented property, in a string": ("tests/a.c", 'fail("C13 %d", key);', ["C13"]),
    "the end of a range": ("docs/a.md", "C10..C14, R7-R9", ["C14", "R9"]),
    "an anchor inside of code": ("agent/a.c", "/* G2 */", ["G2"]),
    "a script": ("agent/a.lua", "-- R98", ["R98"]),
    "the name of a test": ("tests/a.c", "Test(renew, r7_r31_nothing_shortens)", ["R31"]),
    "a section by its old name": ("agent/a.c", "/* DESIGN 5.3 */", ["cited as D1"]),
    "no citations": (
        "api/a.c",
        '/* C0, DEL and C1. */ "%C3%A9" "\\xC3" 0xA9 XR99 R99x A40 ":D"',
        [],
    ),
    "good links": (
        "docs/a.md",
        "[x](design.md#d53-the-guard) [y](../docs/design.md#a1) [z](https://a.example/#b)",
        [],
    ),
    "a heading of its own": (
        "docs/a.md",
        "## What `it` does\n[x](#what-it-does) [y](#elsewhere)",
        ["#elsewhere: there is"],
    ),
    "two headings of one name": ("docs/a.md", "# A\n# A\n[x](#a-1) [y](#a-2)", ["#a-2"]),
    "a file that is missing": (
        "docs/a.md",
        "\n[x](gone.md#top)",
        ["a.md:2: gone.md#top: there is no such file"],
    ),
    "a heading that is missing": (
        "docs/a.md",
        "[x](design.md#d54)",
        ["design.md#d54: there is no such heading"],
    ),
    "links in code": ("docs/a.md", "`[x](gone.md)`\n```\n[x](gone.md)\n```", []),
}


def findings(name, text):
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for each in citations.PLACES:
            (tree / each).mkdir()
        (tree / citations.DESIGN).write_text(DESIGN, encoding="utf-8")
        (tree / name).write_text(text, encoding="utf-8")
        return citations.check(tree)[1]


def main():
    passed = failed = 0
    for title, (name, text, wanted) in CASES.items():
        found = findings(name, text)
        good = len(found) == len(wanted) and all(part in each for part, each in zip(wanted, found))
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAILED {title}: {found}, not {wanted}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
