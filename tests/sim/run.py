#!/usr/bin/env python3
"""The gate of the simulator: tests/sim/run.py BUILD_DIR [--runs N] [--short] [--seed N].

Without --seed: every mutant on its killing seeds, the assumptions broken and kept, the fixed
seeds, and --runs new seeds of the core, with the share of each theme (THEMES), from a random start
that it prints; then new seeds of the guard. --short: new seeds alone, for CI, because `make test`
has run the rest. They begin at the hash of the committed tree, so that each tree has its own, and
the same tree has the same. The last line is `N passed, N failed`.
With --seed: replays that one seed and prints its timeline.
"""
import argparse
import pathlib
import re
import secrets
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from tree import number_of_tree

ROOT = pathlib.Path(__file__).parent.parent.parent
# Themes of the core's new seeds: name, options, and share of the seeds. The other seeds have no
# theme.
THEMES = (
    ("themes that the seed draws", ["--mixed"], 1 / 8),
    ("keys of several kinds", ["--kinds"], 1 / 20),
    ("masters that forget", ["--forgetful"], 1 / 20),
    ("callers that go to several agents", ["--roaming"], 1 / 20),
    ("order fair", ["--fair"], 1 / 20),
    ("readers and writers", ["--rw"], 1 / 20),
    ("readers and writers, masters that forget", ["--rw", "--forgetful"], 1 / 20),
    ("semaphores", ["--semaphores"], 1 / 20),
    ("locks shared with Java", ["--redisson"], 1 / 20),
    ("masters away in turn", ["--in-turn"], 1 / 40),
    ("agents cut off from one master or two", ["--apart", "--roaming"], 1 / 40),
    ("a single master with replicas", ["--replicas"], 1 / 40),
    ("few rounds in flight", ["--few-rounds"], 1 / 40),
    ("clocks that step", ["--clocks"], 1 / 20),
    ("many wait for one key", ["--many-wait"], 1 / 20),
    ("wild fencing numbers", ["--wild-numbers"], 1 / 40),
    ("keys that are followed", ["--followers"], 1 / 40),
    ("neighbours in the buckets", ["--neighbours"], 1 / 40),
    ("releases without a script", ["--compare-delete"], 1 / 40),
    ("releases without a script, masters that forget", ["--compare-delete", "--forgetful"], 1 / 40),
    ("holds that are unlocked by hand", ["--operator"], 1 / 40),
    ("labels that change", ["--labels"], 1 / 40),
    (
        "labels that change, keys of several kinds, callers that go to several agents",
        ["--labels", "--kinds", "--roaming"],
        1 / 40,
    ),
    (
        "holds that are unlocked by hand, keys of several kinds, callers that go to several agents",
        ["--operator", "--kinds", "--roaming"],
        1 / 40,
    ),
)
# Of the guard's: one for so many of the core's.
GUARD_THEMES = dict.fromkeys(("fresh", "in-turn", "forgetful", "copies", "leases", "layouts"), 100)
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def run(*args):
    """Runs the program, passes on its output, and returns its closing counts."""
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
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--options", default="", help="of the simulator, for --seed")
    arguments = parser.parse_args()
    sim = arguments.build / "tests" / "sim" / "sim"
    if arguments.seed is not None:
        return subprocess.run(
            [sim, *arguments.options.split(), str(arguments.seed)], check=False
        ).returncode

    start = 1 + (number_of_tree() if arguments.short else secrets.randbelow(1 << 48))
    sums = []
    if not arguments.short:
        sums.append(run(ROOT / "tests" / "run", arguments.build, "--suite", "sim"))
    shares = [int(arguments.runs * share) for _, _, share in THEMES]
    of_no_theme = arguments.runs - sum(shares)
    assert of_no_theme > 0
    print(f"== new seeds from {start}")
    sums.append(run(sim, "--runs", of_no_theme, "--from", start))
    for (theme, options, _), runs in zip(THEMES, shares):
        print(f"== {theme}, new seeds from {start}")
        sums.append(run(sim, *options, "--runs", runs, "--from", start))
        if sums[-1][1] > 0:
            print(f"FAILED {theme}: {' '.join(options)}")
    print(f"== the guard, new seeds from {start}")
    guard = arguments.build / "tests" / "guard" / "guard_world"
    for theme, share in GUARD_THEMES.items():
        sums.append(run(guard, f"--{theme}", "--runs", arguments.runs // share, "--from", start))
    passed, failed = (sum(column) for column in zip(*sums))
    print(f"{passed} passed, {failed} failed")
    return 0 if passed > 0 and failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
