"""The manual page has its tables from docs/, and tables of options name the program's arguments.

A part of the page between `.\\" from PAGE, HEADING` and `.\\" end` is the first table under that
heading of PAGE: the first column as tags, the second as their paragraphs.
"""
import re
import subprocess
import textwrap

from session import ROOT

MANUAL = ROOT / "deploy/man/lockagent.1"
PART = re.compile(r'(\.\\" from (\S+), (.+)\n)((?:.|\n)*?)(\.\\" end\n)')
MARKUP = re.compile(r"`([^`]*)`|\*([^*]*)\*")
OPTION = re.compile(r"--[a-z][a-z-]*")
USAGES = {
    "docs/configuration.md": ["--help"],
    "docs/run.md": ["run", "--help"],
    "docs/capacity.md": ["capacity", "--help"],
}


def rows(page, heading):
    """The cells of the first table under the heading."""
    text = (ROOT / page).read_text().split(f"\n## {heading}\n", 1)[1]
    table = re.search(r"^(?:\|.*\n)+", text, re.M)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def roff(text):
    def font(match):
        code, emphasized = match.groups()
        if code is None:
            return rf"\fI{emphasized}\fR"
        return r"\fB" + code.replace("-", r"\-") + r"\fR"

    text = MARKUP.sub(font, text)
    lines = textwrap.wrap(text, 98, break_long_words=False, break_on_hyphens=False)
    return "\n".join(r"\&" + line if line[0] in ".'" else line for line in lines)


def render(page, heading):
    return "".join(f".TP\n{roff(tag)}\n{roff(text)}\n" for tag, text in rows(page, heading))


def check(lockagent, write, judge):
    text = MANUAL.read_text()

    def part(match):
        begin, page, heading, shown, end = match.groups()
        real = render(page, heading)
        judge(
            f"{MANUAL.name}, {heading} of {page}",
            write or shown == real,
            "it is not the table of that page; make docs mends it",
        )
        return begin + real + end

    text = PART.sub(part, text)
    if write:
        MANUAL.write_text(text)
    for page, arguments in USAGES.items():
        command = [lockagent, *arguments]
        usage = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        named = {option for tag, _ in rows(page, "Options") for option in OPTION.findall(tag)}
        apart = named ^ set(OPTION.findall(usage))
        judge(f"{page}, Options", not apart, f"not as in the usage: {', '.join(sorted(apart))}")
