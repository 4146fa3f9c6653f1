#!/usr/bin/env python3
"""The version is in meson.build; all other places that name it say the same.

version.py: checks that. version.py --notes: prints what CHANGELOG.md says of this version, or
[Unreleased] as long as it has no section of its own."""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
VERSION = r"(\d+\.\d+\.\d+)"
# Each names it at least once, in each place where this finds it.
NAMED = {
    "api/openapi.yaml": rf"^  version: {VERSION}$",
    "Dockerfile": rf"org\.opencontainers\.image\.version=\"{VERSION}\"",
    "deploy/kubernetes/sidecar/pod.yaml": rf"image: lockagent:{VERSION}$",
    "deploy/kubernetes/daemonset/daemonset.yaml": rf"image: lockagent:{VERSION}$",
    "deploy/kubernetes/masters/first-votes.yaml": rf"image: lockagent:{VERSION}$",
    "deploy/helm/lockagent/Chart.yaml": rf"^(?:appVersion|version): {VERSION}$",
    "deploy/kubernetes/node-service/daemonset.yaml": rf"image: lockagent:{VERSION}$",
    "deploy/helm/lockagent/values.yaml": rf"image: lockagent:{VERSION}$",
    "deploy/helm/lockagent-masters/Chart.yaml": rf"^version: {VERSION}$",
    "deploy/helm/lockagent-masters/values.yaml": rf"^agentImage: lockagent:{VERSION}$",
    "deploy/helm/example/Chart.yaml": rf"^    version: {VERSION}$",
    "docs/kubernetes.md": rf"(?:lockagent:|newTag: |lockagent, version: ){VERSION}",
}


def text(path):
    return (TOP / path).read_text()


def version():
    (found,) = re.findall(
        rf"^project\('lockagent'.* version: '{VERSION}'", text("meson.build"), re.M
    )
    return found


def notes(changelog, of):
    """The section of that version, otherwise the unreleased one."""
    sections = re.findall(r"^## \[([^]]+)\][^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    named = dict(sections)
    return (named.get(of) or named["Unreleased"]).strip()


def wrong(path, named, of):
    found = re.findall(NAMED[path], named, re.M)
    if not found:
        yield f"{path} does not name the version"
    for each in found:
        if each != of:
            yield f"{path} says {each}, and meson.build {of}"


def main():
    of = version()
    if sys.argv[1:] == ["--notes"]:
        print(notes(text("CHANGELOG.md"), of))
        return 0
    faults = [fault for path in NAMED for fault in wrong(path, text(path), of)]
    for path in NAMED:  # each of these checks can fail
        spoilt = [text(path).replace(of, "9.9.9"), text(path).replace(of, "")]
        faults += [
            f"{path}: a fault is not seen" for each in spoilt if not [*wrong(path, each, of)]
        ]
    log = "# C\n\n## [Unreleased]\n\nnew\n\n## [1.0.0] - 2026-01-01\n\nold\n"
    if (notes(log, "1.0.0"), notes(log, "1.1.0")) != ("old", "new"):
        faults.append("the notes of a version are others'")
    if not notes(text("CHANGELOG.md"), of):
        faults.append(f"CHANGELOG.md says nothing of {of}")
    print("\n".join(faults) or f"{of}, everywhere")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
