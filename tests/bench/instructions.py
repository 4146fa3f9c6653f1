#!/usr/bin/env python3
"""The instructions of a master for each lock: instructions.py BUILD_DIR [--write]
[--only-measure].

One redis-server runs under callgrind, and the program `instructions` drives it with the agent's own
calls. The counts of its work do not depend on the load of the machine, so they can be compared with
those of instructions.txt. A row with more than 3 % above its allowed figure fails. A row with more
than 3 % below says that the figure should be lowered. --write writes this run's figures.

The figures are those of one server on one kind of machine, which the list names. On another one the
gate is skipped, and --only-measure prints the figures of that one. Rows of commands that the
server does not have are left out. The last line is `N passed, N failed`.
"""
import argparse
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys

from stage import Failure, Master, Process, Stage, free_port, mark_master, wait_for

LIST = pathlib.Path(__file__).resolve().with_name("instructions.txt")
ALLOWED = 0.03  # of the figure, above and below
START_S, RUN_S = 60, 300  # limits, on a busy machine

# Without these, two runs or two machines would differ. None of it is part of a call.
PINNED = {
    "hz": "1",
    "dynamic-hz": "no",
    "activerehashing": "no",
    "jemalloc-bg-thread": "no",
    "slowlog-log-slower-than": "-1",  # every call is slow under callgrind
}
ENVIRONMENT = {
    # the allocator returns memory to the kernel when some time has passed
    "MALLOC_CONF": "dirty_decay_ms:-1,muzzy_decay_ms:-1",
    # the C library copies and compares in another way on each processor
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-BMI2,-ERMS,-FSRM",
}
BY_TIME = "serverCron"  # the function of the server that the clock starts, and no call


# ---- the master


class CountedMaster(Master):
    """A master under callgrind, which writes its counts at each ECHO. It does not inherit the
    environment, which is part of its heap.
    """

    def __init__(self, folder, port, same_seed):
        if not same_seed.exists():
            raise Failure(f"{same_seed} is missing")
        self.folder, self.port = folder, port
        folder.mkdir()
        valgrind = [
            program("valgrind"),
            "--tool=callgrind",
            "--vgdb=no",
            "--dump-before=echoCommand",
        ]
        valgrind += [f"--callgrind-out-file={folder}/counts"]
        server = [*server_command(), "--port", port, "--bind", "127.0.0.1", "--dir", folder]
        server += ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        server += [word for name, value in PINNED.items() for word in (f"--{name}", value)]
        environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        environment += [f"LD_PRELOAD={same_seed}"]
        Process.__init__(self, folder / "log", "env", "-i", *environment, *valgrind, *server)
        wait_for("a master", self.answers, START_S)

    def part(self, number):
        """The counts between the ECHO of this number, from 1, and the one before it."""
        path = self.folder / f"counts.{number}"
        if not path.exists():
            raise Failure(f"callgrind wrote no part {number}: has the server no echoCommand?")
        return instructions_of(path.read_text())


def program(name):
    found = shutil.which(name)
    if not found:
        raise Failure(f"{name} is missing")
    return found


def server_command():
    """The server's program. One of tests/servers is a script, which callgrind does not follow: the
    script's own command is run in its place."""
    path = pathlib.Path(program("redis-server"))
    with path.open("rb") as file:
        is_script = file.read(2) == b"#!"
    if not is_script:
        return [path]
    line = path.read_text().splitlines()[1]
    return [word for word in shlex.split(line) if word not in ("exec", "$@")]


def instructions_of(part):
    """The instructions of a part of callgrind's output, without those that the clock started."""
    total = int(re.search(r"^totals: (\d+)$", part, re.M)[1])
    by_time = re.search(rf"^c?fn=\((\d+)\) {BY_TIME}$", part, re.M)
    if by_time:
        called = rf"^cfn=\({by_time[1]}\).*\ncalls=.*\n\S+ (\d+)$"
        total -= sum(map(int, re.findall(called, part, re.M)))
    return total


# ---- one run


def server_name():
    said = subprocess.run(["redis-server", "--version"], capture_output=True, text=True).stdout
    version, malloc = re.search(r"v=(\S+)", said), re.search(r"malloc=(\S+)", said)
    name = said.split()[0] if said else "no server"
    words = [name, *(found[1] for found in (version, malloc) if found), platform.machine()]
    return " ".join(words).lower()


CONFIG = (
    "redis: {groups: {main: {masters: [redis://127.0.0.1:6379]}}}\n"  # --master has the port
    "policies:\n"
    '  - {match: "fair-*", order: fair}\n'
    '  - {match: "permits-*", permits: 8}\n'
    '  - {match: "rw-*", kind: rw}\n'
)


def measure(build):
    """The instructions of each row, by its name."""
    with Stage(build) as stage:
        master = CountedMaster(
            stage.folder / "master", free_port(), stage.build / "tests/bench/same-seed.so"
        )
        stage.masters.append(master)
        mark_master("-p", master.port)
        config = stage.folder / "instructions.yaml"
        config.write_text(CONFIG)
        arguments = ["--master", master.port, "--config", config]
        tool = stage.tool("instructions", *arguments, stdout=subprocess.PIPE)
        try:
            said, _ = tool.popen.communicate(timeout=RUN_S)
        except subprocess.TimeoutExpired:
            raise Failure(f"instructions: no result within {RUN_S} s") from None
        if tool.popen.returncode != 0:
            raise Failure(tool.said())
        rows = [line.split() for line in said.splitlines()]
        return {name: master.part(i) / int(count) for i, (name, count) in enumerate(rows, start=2)}


# ---- the list


def read_list(text):
    """The server that the figures belong to, and the figures."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    server = lines[0].removeprefix("server ")
    return server, {name: int(figure) for name, figure in (line.split() for line in lines[1:])}


def print_list(server, measured):
    rows = "".join(f"{name} {figure:.0f}\n" for name, figure in measured.items())
    return f"# Written by make instructions WRITE=1.\nserver {server}\n{rows}"


# ---- the verdict


def judge(measured, allowed):
    """(row, state, is good) of each row that was measured, or that has an allowed figure."""
    found = []
    for name in [*measured, *(name for name in allowed if name not in measured)]:
        if name not in measured:
            found.append((name, "was not measured", False))
        elif name not in allowed:
            found.append((name, "has no allowed figure: make instructions WRITE=1", False))
        else:
            off = measured[name] / allowed[name] - 1
            state = f"{off:+.1%}"
            if off > ALLOWED:
                state += ": too many"
            elif off < -ALLOWED:
                state += ": lower the figure with make instructions WRITE=1"
            found.append((name, state, off <= ALLOWED))
    return found


def ratio_to_bare(name, measured):
    bare = measured.get(f"bare-{name.rpartition('-')[2]}")
    return f"{measured[name] / bare:.2f}" if bare and name in measured else "-"


def print_table(measured, allowed, verdict):
    print(f"{'row':12}{'instructions':>14}{'to bare':>10}{'allowed':>10}  state")
    for name, state, _ in verdict:
        is_, may = measured.get(name), allowed.get(name)
        print(
            f"{name:12}{'-' if is_ is None else format(is_, ',.0f'):>14}"
            f"{ratio_to_bare(name, measured):>10}{'-' if may is None else format(may, ','):>10}"
            f"  {state}"
        )


def report(measured, allowed):
    """Prints the table and the closing line. Returns true if all rows are good."""
    verdict = judge(measured, allowed)
    print_table(measured, allowed, verdict)
    bad = [f"FAILED {name}: {state}" for name, state, is_good in verdict if not is_good]
    print(*bad, f"{len(verdict) - len(bad)} passed, {len(bad)} failed", sep="\n")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only-measure", action="store_true")
    options = parser.parse_args()
    server, (listed, allowed) = server_name(), read_list(LIST.read_text())
    if server != listed and not options.write and not options.only_measure:
        print(f"skipped instructions: the figures are those of {listed}; this is {server}")
        print("0 passed, 0 failed")
        return
    try:
        measured = measure(options.build)
    except Failure as why:
        print(f"FAILED: {why}", "0 passed, 1 failed", sep="\n")
        sys.exit(1)
    if options.only_measure:
        print_table(measured, {}, [(name, server, True) for name in measured])
        return
    if options.write:
        LIST.write_text(print_list(server, measured))
        allowed = read_list(LIST.read_text())[1]
    sys.exit(not report(measured, allowed))


if __name__ == "__main__":
    main()
