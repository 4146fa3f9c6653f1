#!/usr/bin/env python3
"""Each purpose of the simulator has a stream of chance of its own: streams.py SIM.

A draw more from a stream that agents do not see must leave the timeline of every seed as it is. So
a new draw for one purpose does not move the schedules of the others, and killing seeds stay.
"""
import subprocess
import sys

THEMES = ([], ["--fair"], ["--rw"], ["--forgetful"], ["--clocks"], ["--semaphores"])
SEEDS = range(1, 6)


def timeline(sim, options, seed):
    ended = subprocess.run(
        [sim, *options, str(seed)], stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    return ended.stdout


def main():
    sim, failed = sys.argv[1], 0
    for theme in THEMES:
        for seed in SEEDS:
            before = timeline(sim, theme, seed)
            after = timeline(sim, [*theme, "--draw-more"], seed)
            if before != after or len(before.splitlines()) < 100:
                print(f"{' '.join(theme)} {seed}: the timeline has moved")
                failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
