#!/usr/bin/env python3
"""Generates Go clients from the agent's description, by oapi-codegen and by ogen, and runs them
against a real agent: run.py BUILD_DIR.

Each generator takes both renderings; the client is the one of that named here. Needs Go, and the
modules of tests/openapi/go.mod from a module proxy or from Go's cache. Otherwise it is skipped, and
a line says so. The last line is `N passed, N failed`.
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "docs"))
from session import ROOT, Session

# generator, its command, the folder of the program that uses the client, rendering of that client
GENERATORS = (
    (
        "oapi-codegen",
        "go tool oapi-codegen -generate types,client -package client -o {out}/client.go {spec}",
        ".",
        "3.0.3",
    ),
    ("ogen", "go tool ogen --clean --package client --target {out} {spec}", "ogen", "3.1.0"),
)
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def ended_well(what, command, folder):
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    if ended.returncode != 0:
        print(f"{what}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}".strip())
    return ended.returncode == 0


def skipped(why):
    print(f"skipped: {why}")
    print("0 passed, 0 failed")
    return 0


def generated(name, command, program, chosen, renderings, folder):
    """Returns whether the generator took each rendering, and the program was built."""
    for version, spec in renderings.items():
        client = "client" if version == chosen else f"client-{version}"
        out = folder / program / client
        out.mkdir()
        words = command.format(out=out, spec=spec).split()
        if not ended_well(f"FAILED: {name} takes {version}", words, folder):
            return False
    build = ["go", "build", "-buildvcs=false", "-o", f"try-{name}", f"./{program}"]
    return ended_well(f"FAILED: {name}: build", build, folder)


def tried(program, agent):
    """Runs a client, and returns how many of its checks passed and failed."""
    ended = subprocess.run([program, agent], capture_output=True, text=True, timeout=120)
    print(ended.stdout + ended.stderr, end="")
    closing = CLOSING.findall(ended.stdout)
    passed, failed = map(int, closing[-1]) if closing else (0, 0)
    return passed, failed or int(ended.returncode != 0 or passed == 0)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("go"):
        return skipped("Go is missing")
    folder = build / "openapi-client"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py"))
    if not ended_well("go mod download:", ["go", "mod", "download"], folder):
        return skipped("no Go that is new enough, or no module proxy")
    renderings = {
        "3.1.0": ROOT / "api/openapi.yaml",
        "3.0.3": build / "api/openapi-3.0.yaml",
    }
    passed = failed = 0
    with contextlib.closing(Session(str(build / "lockagent"))) as session:
        for name, *how in GENERATORS:
            if not generated(name, *how, renderings, folder):
                failed += 1
                continue
            more = tried(folder / f"try-{name}", f"http://127.0.0.1:{session.base}")
            print(f"{name}: {more[0]} passed, {more[1]} failed")
            passed, failed = passed + 1 + more[0], failed + more[1]
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["GOFLAGS"] = "-mod=readonly"
    sys.exit(main())
