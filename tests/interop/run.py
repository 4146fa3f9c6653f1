#!/usr/bin/python3
"""Other clients beside agents, on the same real masters and the same keys.

run.py BUILD_DIR [--only CLIENT] [--write]

A row fails if something else is seen than docs/interop.md says of it. Its table is compared too;
--write puts it there, if no row has failed. A client that is not available is skipped with a word.
The last line is `N passed, N failed`. (Debian's Python runs this: it has python3-redis.)
"""
import argparse
import contextlib
import http.client
import os
import pathlib
import re
import signal
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests/hazards"), str(TOP / "tests/faults")]
from clients import CLIENTS, Missing
from rows import ROWS, SPREAD, Shared
from stage import MASTERS, Refused, Unseen
from means import Failure

PAGE = TOP / "docs/interop.md"
TABLE = re.compile(r"(?<=<!-- clients -->\n).*?(?=<!-- end of clients -->)", re.S)
BROKEN = (OSError, LookupError, ValueError, http.client.HTTPException, Refused, Unseen, Failure)


def table():
    rows = ["|  | " + " | ".join(client.name for client in CLIENTS) + " |"]
    rows.append("| --- " * (len(CLIENTS) + 1) + "|")
    for title, cell, _ in ROWS + [SPREAD]:
        rows.append(f"| {title} | " + " | ".join(cell(client) for client in CLIENTS) + " |")
    return "\n".join(rows) + "\n"


def play(build, kind, used, rows):
    """Yields for each row whether it was seen as the page says."""
    with contextlib.closing(Shared(build, used)) as stage:
        with contextlib.closing(kind(stage, build)) as client:
            for title, cell, row in rows:
                trouble = None
                try:
                    row(stage, client)
                except BROKEN as why:
                    trouble = f"{type(why).__name__}: {why}"
                word = "FAILED" if trouble else "ok"
                print(f"{word:6} {kind.name} | {title} | {cell(kind)}", flush=True)
                if trouble:
                    print(f"       {trouble}", flush=True)
                yield trouble is None


def play_all(build, kind):
    try:
        if kind.masters > 1:
            return list(play(build, kind, kind.masters, ROWS[:-1] + [SPREAD] + ROWS[-1:]))
        return [*play(build, kind, 1, ROWS), *play(build, kind, MASTERS, [SPREAD])]
    except Missing as missing:
        print(f"skipped {kind.name}: {missing}")
        return []
    except BROKEN as why:
        print(f"FAILED {kind.name}: {type(why).__name__}: {why}")
        return [False]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    # Started processes are ended on every way out.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    good = []
    for kind in CLIENTS:
        if options.only in kind.name:
            good += play_all(os.path.abspath(options.build), kind)
    text = PAGE.read_text(encoding="utf-8")
    if options.write and good and all(good):
        text = TABLE.sub(lambda _: table(), text)
        PAGE.write_text(text, encoding="utf-8")
    if not options.only:
        good.append(TABLE.findall(text) == [table()])
        if not good[-1]:
            print(f"FAILED the table of {PAGE.name} is not of these rows; make interop WRITE=1")
    print(f"{good.count(True)} passed, {good.count(False)} failed")
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
