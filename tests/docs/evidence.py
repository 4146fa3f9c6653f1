#!/usr/bin/env python3
"""Keeps docs/evidence.md true to the README, the design and the Makefile: evidence.py.

1. Each claim in the table of claims is in the README, word for word.
2. Each claim has a kind of evidence that the page defines, at least one rule or section of
   docs/design.md, and at least one command; that of a search is `make explore`.
3. Each assumption of the README is in the table of assumptions, with a command.
4. Each `make TARGET` of the page is a target of the Makefile.

citations.py checks the links themselves. Each check is seen to fail first, on pages that were
spoilt. The last line is `N passed, N failed`.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
CLAIMS = re.compile(r"<!-- claims -->\n(.*?)<!-- end of claims -->\n", re.S)
WORDS = re.compile(r"^## The words\n(.*?)^## ", re.M | re.S)
ASSUMED = re.compile(r"^## The assumptions\n(.*?)^## ", re.M | re.S)
RULE = re.compile(r"\]\(design\.md#[a-z0-9-]+\)")
MAKE = re.compile(r"`make ([a-z-]+)[^`]*`")


def plain(text):
    """Without the marks and line ends of Markdown: links are their texts."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", re.sub(r"[*`]", "", text))


def rows(table):
    """The cells of each row but the head and the line below it."""
    lines = [line for line in table.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def targets(makefile):
    return set(re.findall(r"^([a-z-]+):[^\n]*## ", makefile, re.M))


def complaints(page, readme, makefile):
    claims, words, assumed = (found.findall(page) for found in (CLAIMS, WORDS, ASSUMED))
    if not (len(claims) == len(words) == len(assumed) == 1 and rows(claims[0])):
        yield "the table of claims, the words or the assumptions are missing"
        return
    kinds, said = [row[0] for row in rows(words[0])], plain(readme)
    for claim, *rest in rows(claims[0]):
        if len(rest) != 3:
            yield f"{claim}: {len(rest) + 1} cells; a row has 4"
            continue
        evidence, rule, command = rest
        if plain(claim) not in said:
            yield f"{claim}: the README does not say so"
        if not any(re.match(rf"{kind}\b", evidence) for kind in kinds):
            yield f"{claim}: `{evidence}` begins with no word of {', '.join(kinds)}"
        if not RULE.search(rule):
            yield f"{claim}: no rule or section of docs/design.md"
        if not MAKE.search(command):
            yield f"{claim}: no command"
        if evidence.startswith("searched") and "explore" not in MAKE.findall(command):
            yield f"{claim}: a search is `make explore`"
    named = {match[1]: row for row in rows(assumed[0]) if (match := re.match(r"\[(A\d)\]", row[0]))}
    for number in re.findall(r"^\| (A\d) \|", readme, re.M):
        if number not in named or not MAKE.search(named[number][-1]):
            yield f"{number}: no row of the assumptions, or no command that breaks it"
    there = targets(makefile)
    for target in sorted(set(MAKE.findall(page)) - there):
        yield f"`make {target}` is no target of the Makefile"


def spoilt(page, readme, makefile):
    """Pages, each with one fault that must be seen."""
    first = rows(CLAIMS.findall(page)[0])[0]
    yield page, readme.replace("majority", "minority"), makefile
    yield page, readme, re.sub(r"^sim:", "simulate:", makefile, flags=re.M)
    yield page.replace(first[1], "proven"), readme, makefile
    yield page.replace(first[2], "[D1](testing.md)"), readme, makefile
    yield page.replace(f"{first[2]} | {first[3]}", f"{first[2]} | by hand"), readme, makefile
    yield page.replace(f" | {first[3]} |", " |", 1), readme, makefile
    yield page.replace("`make explore`", "`make sim`"), readme, makefile
    yield page.replace("| [A5]", "| [no]"), readme, makefile
    yield page, readme + f"\n| A{9} | something else |\n", makefile
    yield page.replace("<!-- end of claims -->\n", ""), readme, makefile


def main():
    texts = [(TOP / name).read_text() for name in ("docs/evidence.md", "README.md", "Makefile")]
    failed = list(complaints(*texts))
    passed = len(rows((CLAIMS.findall(texts[0]) or [""])[0])) + 1 - len(failed)
    if not failed:
        for number, pages in enumerate(spoilt(*texts), 1):
            if list(pages) == texts or not list(complaints(*pages)):
                failed.append(f"fault {number} of a spoilt page is not seen")
            else:
                passed += 1
    for why in failed:
        print(f"FAILED {why}")
    print(f"{max(passed, 0)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
