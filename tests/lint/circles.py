#!/usr/bin/env python3
"""Refuses a circle, so that there is one way through every room: circles.py TOP BUILD.

Three graphs of agent/, api/ and config/ must have none:

  headers   the includes of each
  modules   a .c file with its header: whose functions and data each needs, as the objects of BUILD
            say it
  rooms     both, between folders. The files directly in agent/ are between the rooms: each is one
            of its own.

A call through a pointer that was handed down is not an arrow: a lower module reports to a higher
one in that way.
"""
import collections
import json
import os
import subprocess
import sys

import sources

NAMES_SHOWN = 6


def module_of(path):
    return os.path.splitext(path)[0]


def room_of(path):
    folder = os.path.dirname(path)
    return module_of(path) if folder == "agent" else folder


def objects(top, build):
    """{source: its object}. A source that tests build again, with a broken rule, counts once."""
    top = os.path.realpath(top)
    found = {}
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    for command in commands:
        folder, output = command["directory"], command["output"]
        source = os.path.relpath(os.path.realpath(os.path.join(folder, command["file"])), top)
        if source.split(os.sep)[0] in sources.ROOMS and not output.startswith("tests"):
            found.setdefault(source, os.path.join(folder, output))
    return found


def symbols(top, build):
    """[(source, source that defines it, name)] of everything that one module needs of another."""
    of = objects(top, build)
    if not of:
        return []
    owners = {os.path.realpath(path): source for source, path in of.items()}
    listing = subprocess.check_output(["nm", "-A", "-P", *owners], text=True)
    weak, strong, needs = {}, {}, []
    for line in listing.splitlines():
        path, symbol = line.split(": ", 1)
        name, kind = symbol.split()[:2]
        if kind == "U":
            needs.append((owners[path], name))
        elif kind in "WV":
            weak[name] = owners[path]
        elif kind.isupper():
            strong[name] = owners[path]
    defined = strong | weak  # a weak one is known to its own room
    return [(source, defined[name], name) for source, name in needs if name in defined]


def circles(arrows):
    """The sets of nodes that can all reach each other (Tarjan), in {node: {node: names}}."""
    number, low, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = low[node] = len(number)
        stack.append(node)
        for other in sorted(arrows.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            circle = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(circle) > 1:
                found.append(set(circle))

    for node in sorted(arrows):
        if node not in number:
            visit(node)
    return found


def told(what, arrows):
    lines = []
    for circle in circles(arrows):
        lines.append(f"circle of {len(circle)} {what}: {', '.join(sorted(circle))}")
        for node in sorted(circle):
            for other in sorted(circle & set(arrows.get(node, ()))):
                names = sorted(arrows[node][other])
                more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
                lines.append(f"  {node} -> {other}: {', '.join(names[:NAMES_SHOWN])}{more}")
    return lines


def findings(top, build):
    def graph():
        return collections.defaultdict(lambda: collections.defaultdict(set))

    headers, modules, rooms = graph(), graph(), graph()
    needs = symbols(top, build)
    included = [
        (path, header) for path in sources.files(top) for header in sources.includes(top, path)
    ]
    if not needs or not included:
        return ["no objects or no sources found"]
    for path, header in included:
        if path.endswith(".h"):
            headers[path][header].add("#include")
        if room_of(path) != room_of(header):
            rooms[room_of(path)][room_of(header)].add(f"{path} includes {header}")
    for source, owner, name in needs:
        if module_of(source) != module_of(owner):
            modules[module_of(source)][module_of(owner)].add(name)
        if room_of(source) != room_of(owner):
            rooms[room_of(source)][room_of(owner)].add(f"{source} needs {name} of {owner}")
    return told("headers", headers) + told("modules", modules) + told("rooms", rooms)


if __name__ == "__main__":
    found = findings(sys.argv[1], sys.argv[2])
    print(*found, f"{sum(not line.startswith('  ') for line in found)} circles", sep="\n")
    sys.exit(len(found) > 0)
