#!/usr/bin/env python3
"""Generates a Go client from the agent's description, and runs it against a real agent: run.py
BUILD_DIR.

Needs Go, and its modules from a module proxy or from its cache. Otherwise it is skipped, and a line
says so. The last line is `N passed, N failed`.
"""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "docs"))
from session import Session

GENERATE = "go tool oapi-codegen -generate types,client -package client -o client/client.go"


def ended_well(what, command, folder):
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    if ended.returncode != 0:
        print(f"{what}\n{ended.stdout[-3000:]}{ended.stderr[-3000:]}".strip())
    return ended.returncode == 0


def skipped(why):
    print(f"skipped: {why}")
    print("0 passed, 0 failed")
    return 0


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if not shutil.which("go"):
        return skipped("Go is missing")
    folder = build / "openapi-client"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py"))
    (folder / "client").mkdir()
    if not ended_well("go mod download:", ["go", "mod", "download"], folder):
        return skipped("no Go that is new enough, or no module proxy")
    description = build / "api/openapi-3.0.yaml"
    if not ended_well(
        "FAILED: generate", [*GENERATE.split(), description], folder
    ) or not ended_well(
        "FAILED: build", ["go", "build", "-buildvcs=false", "-o", "try", "."], folder
    ):
        print("0 passed, 1 failed")
        return 1
    with contextlib.closing(Session(str(build / "lockagent"))) as session:
        agent = f"http://127.0.0.1:{session.base}"
        return subprocess.run([folder / "try", agent], timeout=120).returncode


if __name__ == "__main__":
    os.environ["GOFLAGS"] = "-mod=readonly"
    sys.exit(main())
