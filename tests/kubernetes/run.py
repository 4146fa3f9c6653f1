#!/usr/bin/env python3
"""Checks deploy/kubernetes and deploy/helm without a cluster: run.py TOOLS LOCKAGENT [--write]

TOOLS is the folder where render.sh has made kustomize, helm and the program of this folder; --write
makes the golden files anew. The last line is `N passed, N failed`.
"""
import itertools
import pathlib
import sys

import helm
import render


def main(tools, lockagent, write=None):
    tools = pathlib.Path(tools).resolve()
    kustomize, strict, lockagent = tools / "kustomize", tools / "strict", pathlib.Path(lockagent)
    passed = failed = 0
    for name, fault in itertools.chain(
        render.looks(kustomize, strict),
        helm.looks(tools / "helm", kustomize, strict, lockagent.resolve(), write == "--write"),
    ):
        passed, failed = passed + (not fault), failed + bool(fault)
        print(f"FAILED  {name}\n{fault}" if fault else f"ok      {name}")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
