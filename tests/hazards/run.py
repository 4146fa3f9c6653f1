#!/usr/bin/env python3
"""The hazards: recipes for locks on Redis that people use, each played on real redis-servers until
its flaw is seen, and then the same schedule with lockagent.

run.py BUILD_DIR [--only PART] [--list] [--write]

A row fails if the flaw of the recipe does not show, or shows with lockagent. The table of all rows
is in docs/hazards.md and is compared; --write puts it there, if no row has failed. The last line is
`N passed, N failed`.
"""
import argparse
import os
import re
import resource
import signal
import sys
import time

import one_server
import several_servers
import waiting
from stage import TOP, Unseen
from means import Failure

sys.path.insert(0, str(TOP / "tests/docs"))
from citations import slug

PAGE = TOP / "docs/hazards.md"
ROWS = one_server.ROWS + several_servers.ROWS + waiting.ROWS
TABLE = re.compile(r"(?<=<!-- hazards -->\n).*?(?=<!-- end of hazards -->)", re.S)
PLAIN = "{:6} {:>5} | {} | {} | {}"


def table():
    rows = ["| recipe | flaw seen on Redis | lockagent |", "| --- | --- | --- |"]
    for each in ROWS:
        rows.append(f"| [{each.system}](#{slug(each.system)}) | {each.flaw} | {each.here} |")
    return "\n".join(rows) + "\n"


def is_in_page(write):
    """The page has this table, and a part of its own for each recipe."""
    text = PAGE.read_text(encoding="utf-8")
    if write:
        text = TABLE.sub(lambda _: table(), text)
        PAGE.write_text(text, encoding="utf-8")
    missing = [each.system for each in ROWS if f"### {each.system}\n" not in text]
    for system in missing:
        print(f"       {PAGE.name} has no part `### {system}`")
    return TABLE.findall(text) == [table()] and not missing


def row(build, hazard):
    began, hazard, trouble = time.monotonic(), hazard(), None
    try:
        hazard.play(build)
    except (Unseen, Failure) as why:
        trouble = why
    word, took_s = "FAILED" if trouble else "ok", time.monotonic() - began
    print(PLAIN.format(word, f"{took_s:.1f}", hazard.system, hazard.flaw, hazard.here), flush=True)
    for line in hazard.figures + ([f"{trouble}"] if trouble else []):
        print(f"       {line}", flush=True)
    return trouble is None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    hazards = [each for each in ROWS if options.only in each.name()]
    if options.list:
        print("\n".join(each.name() for each in hazards))
        return 0
    # Started processes are ended on every way out.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(files, 4096), most), most))
    print(PLAIN.format("", "s", "system", "flaw seen on Redis", "lockagent"))
    good = [row(os.path.abspath(options.build), each) for each in hazards]
    if not options.only:
        good.append(is_in_page(options.write and all(good)))
        if not good[-1]:
            print(f"FAILED {PAGE.name} is not of these rows; make hazards WRITE=1 mends its table")
    print(f"{good.count(True)} passed, {good.count(False)} failed")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
