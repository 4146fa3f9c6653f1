#!/usr/bin/env python3
"""The gate of the explorer: tests/explore/run.py BUILD_DIR [--short] [--write PAGE].

Searches every script as far as its bounds say, in one order of delivery and in every order that
matters, two at a time. --short: without what takes long, for CI. --write: puts the table into
the page. A search that does not come to its end fails. The last line is `N passed, N failed`.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

PLACE = re.compile(r"(<!-- explored -->\n)(.*?)(<!-- end of explored -->\n)", re.S)
RESULT = re.compile(r"^\S+ +bound (\d), [^:]+: +(\d+) states +\d+ ends, .*?([\d.]+) s: (.*)$", re.M)
SECONDS_MAX = "400"


def jobs(explore, short):
    """(script, what it is about, options) of each search."""
    listed = subprocess.run([explore, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    for line in listed.stdout.splitlines():
        name, what, bound, slow, orders = (column.strip() for column in line.split("|"))
        if short and slow == "slow":
            bound = "0"
        yield name, what, ["--bound", bound]
        if orders != "-":
            yield name, what, ["--orders", "--bound", orders]


def search(explore, job):
    name, what, options = job
    ended = subprocess.run(
        [explore, *options, "--seconds", SECONDS_MAX, name],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    print(ended.stdout.rpartition("\n")[0].rpartition("\n")[0], flush=True)
    found = RESULT.search(ended.stdout)
    bound, states, seconds, result = found.groups() if found else ("?", "0", "0", "it died")
    order = "each" if "--orders" in options else "one"
    cells = [name, what, bound, order, f"{int(states):,}", f"{float(seconds):.0f}", result]
    row = f"| {' | '.join(cells)} |"
    return ended.returncode == 0, row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    arguments = parser.parse_args()
    explore = arguments.build / "tests" / "explore" / "explore"
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda job: search(explore, job), jobs(explore, arguments.short)))
    if arguments.write:
        head = [
            "| script | what happens | faults | orders | states | s | result |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        table = "\n".join(head + [row for _, row in ended]) + "\n"
        text = arguments.write.read_text()
        arguments.write.write_text(PLACE.sub(lambda match: match[1] + table + match[3], text))
    passed = sum(well for well, _ in ended)
    print(f"{passed} passed, {len(ended) - passed} failed")
    return 0 if passed == len(ended) else 1


if __name__ == "__main__":
    sys.exit(main())
