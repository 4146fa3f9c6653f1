#!/usr/bin/env python3
"""Proves that small C has no undefined behaviour, for every input that its drivers allow: Frama-C's
Eva runs each driver of this folder, and must raise no alarm. A bug of bugs.txt, put into a copy of
the sources, must raise one.

run.py [--only PART] [--drivers]

Without frama-c, it reports that and is skipped. The last line is `N passed, N failed`.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
HERE = pathlib.Path("tests/prove")
DRIVERS = HERE / "drivers"
SIDE_BY_SIDE, CPU_LIMIT_S = 2, 300
HEADERS = [
    "hiredis",
    "jansson.h",
    "jansson_config.h",
    "microhttpd.h",
]  # of other projects, as they are installed
FRAMA_C = [
    "frama-c",
    "-machdep",
    "gcc_x86_64",
    "-c11",
    "-kernel-warn-key",
    "annot:missing-spec=abort",  # of a function that has neither, nothing is known
    "-eva",
    "-eva-interprocedural-splits",
    "-eva-msg-key=-initial-state,-final-states",
]
PLAIN = "{:6} {:>5} | {}"
printing = threading.Lock()


class Driver:
    """A file of this folder; its first comment names the sources, Eva's options, and the
    alarms that are known to be left (docs/testing.md says why)."""

    def __init__(self, path):
        self.name = path.stem
        self.path = DRIVERS / path.name
        text = path.read_text(encoding="utf-8")
        self.sources = self.words("sources", text)
        self.options = self.words("options", text)
        self.left = re.findall(r"^ \* left: (.*)", text, re.M)

    def words(self, what, text):
        found = re.search(rf"^ \* {what}: (.*(?:\n \*  .*)*)", text, re.M)
        if found is None:
            raise ValueError(f"{self.path}: its first comment names no {what}")
        return found[1].replace("\n *", " ").replace("*/", " ").split()


class Bug:
    """A line of bugs.txt: `driver :: file :: text ==> the text in its place :: what is wrong`."""

    def __init__(self, line, drivers):
        driver, self.file, change, self.what = line.split(" :: ")
        self.old, self.new = change.split(" ==> ")
        self.driver = drivers[driver]

    def put_into(self, top):
        path = top / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            return f"{self.file} has `{self.old}` {text.count(self.old)} times, not once"
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")
        return None


class Analysis:
    """What Eva says of a driver over the sources in `top`."""

    def __init__(self, driver, top):
        flags = f"-I{top} -I{top}/include -I{HERE}/include -D_GNU_SOURCE -include {HERE}/libc.h"
        command = [*FRAMA_C, f"-cpp-extra-args={flags}", *driver.options]
        began = time.monotonic()
        ended = subprocess.run(
            [*command, HERE / "libc.c", driver.path, *driver.sources],
            cwd=top,
            env={**os.environ, "PWD": str(top)},  # by which Frama-C resolves paths
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=limit_cpu,
            check=False,
            text=True,
        )
        self.output, self.is_whole = ended.stdout, ended.returncode == 0
        if ended.returncode == -signal.SIGXCPU:
            self.output = f"no end after {CPU_LIMIT_S} s of a processor"
        self.took_s = time.monotonic() - began
        self.alarms = re.findall(r"^\[eva:alarm\] (.*(?:\n  .*)*)", self.output, re.M)
        seen = [(alarm, bare(alarm)) for alarm in self.alarms]
        self.alarms = [alarm for alarm, text in seen if text not in driver.left]
        self.left = len(seen) - len(self.alarms)
        gone = [text for text in driver.left if text not in {text for _, text in seen}]
        self.gone = [f"is not left any more: {text}" for text in gone]
        reached = re.search(r"(\d+) statements reached", self.output)
        self.reached = int(reached[1]) if reached else 0
        self.is_whole = self.is_whole and self.reached > 0

    def trouble(self):
        if not self.is_whole:
            return self.output.strip().splitlines()[-12:]
        asserted = re.findall(r"each_assertion:\s+(.*(?:\n  .*)*)", self.output)
        return [line for alarm in self.alarms + asserted for line in alarm.splitlines()] + self.gone


def limit_cpu():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S + 5))


def bare(alarm):
    """An alarm in one line, without the number of the line that it is about."""
    return " ".join(re.sub(r":\d+: Warning:", ":", alarm).split())


def copy_of_sources(folder):
    top = pathlib.Path(folder)
    for name in ["agent", "api", "config", HERE]:
        shutil.copytree(TOP / name, top / name)
    (top / "include").mkdir()
    for name in HEADERS:
        for folder in ["/usr/include", "/usr/include/x86_64-linux-gnu"]:
            if (pathlib.Path(folder) / name).exists():
                (top / "include" / name).symlink_to(f"{folder}/{name}")
                break
    return top


def say(took_s, text, trouble):
    with printing:
        print(PLAIN.format("FAILED" if trouble else "ok", f"{took_s:.1f}", text))
        print(*(f"       {line}" for line in trouble), sep="\n", end="\n" if trouble else "")
        sys.stdout.flush()
    return not trouble


def prove(driver):
    with tempfile.TemporaryDirectory() as folder:
        found = Analysis(driver, copy_of_sources(folder))
    left = f", {found.left} known to be left" if found.left else ""
    text = f"{driver.name}: {len(found.alarms)} alarms{left}, {found.reached} statements"
    return say(found.took_s, text, found.trouble())


def catch(bug):
    text = f"{bug.driver.name} sees: {bug.what}"
    with tempfile.TemporaryDirectory() as folder:
        top = copy_of_sources(folder)
        missing = bug.put_into(top)
        if missing:
            return say(0, text, [missing])
        found = Analysis(bug.driver, top)
    if not found.is_whole:
        return say(found.took_s, text, found.trouble())
    return say(found.took_s, text, [] if found.alarms else ["no alarm"])


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="drivers with this in their name")
    options.add_argument("--drivers", action="store_true", help="without the bugs")
    chosen = options.parse_args()
    if shutil.which("frama-c") is None:
        print("skipped: there is no frama-c here", "0 passed, 0 failed", sep="\n")
        return 0
    drivers = {path.stem: Driver(path) for path in sorted((TOP / DRIVERS).glob("*.c"))}
    lines = (TOP / HERE / "bugs.txt").read_text(encoding="utf-8").splitlines()
    bugs = [Bug(line, drivers) for line in lines if line and not line.startswith("#")]
    without = [name for name in drivers if name not in {bug.driver.name for bug in bugs}]
    work = [(prove, driver) for driver in drivers.values()]
    work += [(catch, bug) for bug in bugs] if not chosen.drivers else []
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        named = (
            (do, what) for do, what in work if chosen.only in getattr(what, "driver", what).name
        )
        ends = list(pool.map(lambda each: each[0](each[1]), named))
    ends += [say(0, f"{name}: a bug", ["bugs.txt has none"]) for name in without]
    print(f"{sum(ends)} passed, {len(ends) - sum(ends)} failed")
    return 0 if all(ends) else 1


if __name__ == "__main__":
    sys.exit(main())
