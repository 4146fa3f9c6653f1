#!/usr/bin/env python3
"""The gate of the explorer: tests/explore/run.py BUILD_DIR [--short] [--write PAGE] [SCRIPT...].

Searches every script, or these, as far as its bounds say, in one order of delivery and in every
order that matters, two at a time. --short, for CI: of the searches that take five seconds or more,
as the page tells, one of four; the hash of the committed tree says which. --write: puts the rows
into the table of the page. A search that does not come to its end fails. The last line is `N
passed, N failed`.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from tree import number_of_tree

PLACE = re.compile(r"(<!-- explored -->\n)(.*?)(<!-- end of explored -->\n)", re.S)
RESULT = re.compile(r"^\S+ +bound (\d), [^:]+: +(\d+) states +\d+ ends, .*?([\d.]+) s: (.*)$", re.M)
SECONDS_MAX = "400"
LONG_SECONDS, SHARE_OF_LONG = 5, 4
PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "testing.md"


def jobs(program, mode):
    """(command, script, subject, options) of each search."""
    listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    for line in listed.stdout.splitlines():
        name, what, bound, orders = (column.strip() for column in line.split("|"))
        yield [program, *mode], name, what, ["--bound", bound]
        if orders != "-":
            yield [program, *mode], name, what, ["--orders", "--bound", orders]


def search(job):
    command, name, what, options = job
    ended = subprocess.run(
        [*command, *options, "--seconds", SECONDS_MAX, name],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    print(ended.stdout.rpartition("\n")[0].rpartition("\n")[0], flush=True)
    found = RESULT.search(ended.stdout)
    bound, states, seconds, result = found.groups() if found else ("?", "0", "0", "it died")
    order = order_of(options)
    cells = [name, what, bound, order, f"{int(states):,}", f"{float(seconds):.0f}", result]
    return ended.returncode == 0, (name, order), f"| {' | '.join(cells)} |"


def order_of(options):
    return "each" if "--orders" in options else "one"


def known_rows(page):
    """The rows of the page, by script and order."""
    for line in PLACE.search(page.read_text())[2].splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("|")]
        yield (cells[1], cells[4]), line


def of_this_tree(todo):
    """All short searches, and a share of the long ones that differs from tree to tree."""
    seconds = {place: float(row.split("|")[6]) for place, row in known_rows(PAGE)}
    turn = number_of_tree()
    for job in todo:
        place = (job[1], order_of(job[3]))
        if seconds.get(place, 0) >= LONG_SECONDS:
            turn += 1
            if turn % SHARE_OF_LONG != 0:
                continue
        yield job


def write(page, todo, found):
    """Rows of scripts that were not searched now stay as they are."""
    rows = {**dict(known_rows(page)), **found}
    head = [
        "| script | what happens | faults | orders | states | s | result |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    places = [(name, order_of(options)) for _, name, _, options in todo]
    table = "\n".join(head + [rows[place] for place in places if place in rows]) + "\n"
    page.write_text(PLACE.sub(lambda match: match[1] + table + match[3], page.read_text()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("scripts", nargs="*")
    arguments = parser.parse_intermixed_args()
    folder = arguments.build / "tests"
    todo = [
        *jobs(folder / "explore" / "explore", []),
        *jobs(folder / "guard" / "guard_world", ["--search"]),
    ]
    chosen = list(of_this_tree(todo)) if arguments.short else todo
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wanted = [job for job in chosen if not arguments.scripts or job[1] in arguments.scripts]
        ended = list(pool.map(search, wanted))
    if arguments.write:
        write(arguments.write, todo, {place: row for _, place, row in ended})
    passed = sum(well for well, _, _ in ended)
    print(f"{passed} passed, {len(ended) - passed} failed")
    return 0 if ended and passed == len(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
