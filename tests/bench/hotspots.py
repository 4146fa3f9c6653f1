#!/usr/bin/env python3
"""Shows the functions that take the agent's cycles under load: hotspots.py [BUILD FOLDER].

Prints perf's top libraries and symbols, and the system calls per pair. CALLERS (64), SECONDS_EACH
(5), LINES (40), AGENT (another program).
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import time

import stage

CALLERS = os.environ.get("CALLERS", "64")
SECONDS = float(os.environ.get("SECONDS_EACH", "5"))
LINES = int(os.environ.get("LINES", "40"))


def perf(*arguments):
    return subprocess.run(["perf", *map(str, arguments)], capture_output=True, text=True)


def event():
    """Virtual machines often have no cycle counter: then the clock says nearly the same."""
    return (
        "cpu-clock" if "not supported" in perf("stat", "-e", "cycles", "true").stderr else "cycles"
    )


def load(theatre, agent, seconds):
    arguments = ["--port", agent.port, "--callers", CALLERS, "--seconds", seconds]
    arguments += ["--warmup", 0.5, "--watch", f"agent:{agent.pid}", *theatre.watch_masters()]
    return theatre.tool("load", *arguments, stdout=subprocess.PIPE)


def result(process):
    said, _ = process.popen.communicate(timeout=120)
    if process.popen.returncode != 0:
        raise stage.Failure(process.said())
    return stage.read_words(said)


def top_lines(data, sort, count):
    said = perf(
        "report", "-i", data, "--stdio", "--no-children", "--sort", sort, "-g", "none"
    ).stdout
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("#")]
    print(f"\nby {sort}:", *lines[:count], sep="\n")


def place_of(stack):
    """A sample in the kernel belongs to the library function that made the system call, any other
    one to its library or program."""
    in_kernel = "kernel.kallsyms" in stack[0]
    user = next((frame.split() for frame in stack if "kernel.kallsyms" not in frame), None)
    if user is None:
        return "(interrupts)"
    if not in_kernel:
        return "outside: " + user[-1].strip("()").rpartition("/")[2]
    return "in " + re.sub(r"__GI_|__libc_|^_+|@.*$", "", user[1])


def by_system_call(data):
    said = perf("script", "-i", data, "-F", "ip,sym,dso").stdout
    stacks = [block.strip().splitlines() for block in re.split(r"\n\s*\n", said) if block.strip()]
    counts = collections.Counter(place_of(stack) for stack in stacks)
    print("\nby system call, or library outside of one:")
    for name, count in counts.most_common(20):
        print(f"{count / len(stacks):7.2%}  {name}")


def count_system_calls(theatre, agent):
    """Tracing slows the agent down; how often each call is made for a pair changes little by it."""
    trace = theatre.folder / "trace"
    arguments = ["--port", agent.port, "--callers", CALLERS, "--warmup", 0, "--seconds", 2]
    program = theatre.build / "tests/bench/load"
    ran = perf("trace", "-s", "-p", agent.pid, "-o", trace, "--", program, *arguments)
    if ran.returncode != 0:
        print("\nperf trace does not work here")
        return
    words = stage.read_words(ran.stdout)
    calls = collections.Counter()
    for line in trace.read_text().splitlines():
        if found := re.match(r"\s+([a-z_0-9]+)\s+(\d+)\s", line):
            calls[found[1]] += int(found[2])
    print("\nsystem calls per pair:")
    for name, count in calls.most_common(12):
        print(f"{count / words['pairs']:8.3f}  {name}")


def main():
    if not shutil.which("perf"):
        sys.exit("hotspots: perf is missing (Debian: linux-perf)")
    build = sys.argv[1] if len(sys.argv) > 1 else "build-bench"
    with stage.Stage(build, os.environ.get("AGENT")) as theatre:
        theatre.start_masters()
        agent = theatre.ready_agent()
        data = theatre.folder / "perf.data"
        process = load(theatre, agent, SECONDS + 0.5)
        time.sleep(0.8)
        arguments = ["-q", "-e", event(), "-F", 2999, "-g", "-p", agent.pid, "-o", data]
        recorded = perf("record", *arguments, "--", "sleep", SECONDS)
        if recorded.returncode != 0:
            sys.exit(f"hotspots: perf can not record here: {recorded.stderr.strip()}")
        print(*(f"{name}={value:g}" for name, value in result(process).items()), sep="\n")
        top_lines(data, "dso", 12)
        top_lines(data, "symbol,dso", LINES)
        by_system_call(data)
        count_system_calls(theatre, agent)


if __name__ == "__main__":
    try:
        main()
    except stage.Failure as why:
        sys.exit(f"hotspots: {why}")
