#!/usr/bin/env python3
"""The gate of the simulator: tests/sim/run.py BUILD_DIR [--runs N] [--seed N].

Without --seed: every mutant on its killing seeds, the assumptions broken and kept, the fixed
seeds, and --runs new seeds of the core, one fifth of them with masters that forget, one fifth
with callers that go to several agents, one tenth with the order fair, one twentieth each with
masters that are away in turn, with few rounds in flight, with many who wait for one key and with
wild fencing numbers, from a random start that it prints; then new seeds of the guard. The last
line is `N passed, N failed`.
With --seed: replays that one seed and prints its timeline.
"""
import argparse
import pathlib
import re
import secrets
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent.parent
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def run(*args):
    """Runs it, passes on what it prints, and returns its closing counts."""
    text = ""
    with subprocess.Popen([str(arg) for arg in args], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            text += line
    closing = CLOSING.findall(text)
    passed, failed = map(int, closing[-1]) if closing else (0, 1)
    if process.returncode != 0 and failed == 0:
        failed = 1
    return passed, failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=25_000)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--options", default="", help="of the simulator, for --seed")
    arguments = parser.parse_args()
    sim = arguments.build / "tests" / "sim" / "sim"
    if arguments.seed is not None:
        return subprocess.run(
            [sim, *arguments.options.split(), str(arguments.seed)], check=False
        ).returncode

    forgetful, roaming, fair = arguments.runs // 5, arguments.runs // 5, arguments.runs // 10
    in_turn = wild = few = many = arguments.runs // 20
    start = 1 + secrets.randbelow(1 << 48)
    sums = [run(ROOT / "tests" / "run", arguments.build, "--suite", "sim")]
    print(f"== new seeds from {start}")
    plain = arguments.runs - forgetful - roaming - fair - in_turn - wild - few - many
    sums.append(run(sim, "--runs", plain, "--from", start))
    print(f"== masters that forget, new seeds from {start}")
    sums.append(run(sim, "--forgetful", "--runs", forgetful, "--from", start))
    print(f"== callers that go to several agents, new seeds from {start}")
    sums.append(run(sim, "--roaming", "--runs", roaming, "--from", start))
    print(f"== order fair, new seeds from {start}")
    sums.append(run(sim, "--fair", "--runs", fair, "--from", start))
    print(f"== masters away in turn, new seeds from {start}")
    sums.append(run(sim, "--in-turn", "--runs", in_turn, "--from", start))
    print(f"== few rounds in flight, new seeds from {start}")
    sums.append(run(sim, "--few-rounds", "--runs", few, "--from", start))
    print(f"== many wait for one key, new seeds from {start}")
    sums.append(run(sim, "--many-wait", "--runs", many, "--from", start))
    print(f"== wild fencing numbers, new seeds from {start}")
    sums.append(run(sim, "--wild-numbers", "--runs", wild, "--from", start))
    print(f"== the guard, new seeds from {start}")
    for theme, share in (
        ("calm", 5),
        ("fresh", 2),
        ("birth", 20),
        ("forgetful", 25),
        ("flushed", 100),
    ):
        guard = arguments.build / "tests" / "sim" / "guard" / "sim_guard"
        sums.append(run(guard, f"--{theme}", "--runs", arguments.runs // share, "--from", start))
    passed, failed = (sum(column) for column in zip(*sums))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
