#!/usr/bin/env python3
"""The benchmark's tools fail if they do nothing: tools_test.py BUILD_DIR.

Each of them is set on a server that refuses, lies, hangs up or keeps silent, and must end with an
error that says so. A tool that printed figures then would make a row of noise, or of zeros.
"""
import asyncio
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile

import bench
import instructions
import plot
import program
import report
import stage

SHA = b"$40\r\n" + 40 * b"a" + b"\r\n"
YES, NO, NIL, ERROR = b"+OK\r\n", b":0\r\n", b"$-1\r\n", b"-ERR refused\r\n"

# A master's answer to SCRIPT LOAD, SET and EVALSHA; None: nothing.
MASTERS = {
    "refuses its script": (ERROR, YES, NO),
    "is held by others": (SHA, NIL, NO),
    "releases nothing": (SHA, YES, NO),
    "breaks in its script": (SHA, YES, ERROR),
    "is silent": (SHA, None, None),
}
# An agent's answer to everything; None: nothing, b"": it closes.
AGENTS = {
    "refuses": b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n",
    "is held by others": b"HTTP/1.1 409 No\r\nContent-Length: 0\r\n\r\n",
    "gives no token": b"HTTP/1.1 201 Yes\r\nContent-Length: 0\r\n\r\n",
    "hangs up": b"",
    "grants to all": b"HTTP/1.1 201 Yes\r\nLock-Token: t\r\nContent-Length: 0\r\n\r\n",
    "is silent": None,
}
CASES = (
    ("bare", "refuses its script", "cannot load a script: ERR refused"),
    ("bare", "is held by others", "bare: not one pair in the window"),
    ("bare", "releases nothing", "bare: not one pair in the window"),
    ("bare", "breaks in its script", "bare: ERR refused"),
    ("bare", "is silent", "bare: not one pair in the window"),
    ("naive", "refuses its script", "cannot load a script: ERR refused"),
    ("naive", "is held by others", "naive: not one grant in the window"),
    ("naive", "breaks in its script", "naive: ERR refused"),
    ("naive", "is silent", "naive: not one grant in the window"),
    ("redis-py", "is held by others", "redis-py: not one pair in the window"),
    ("redis-py", "releases nothing", "redis-py: not one pair in the window"),
    ("load", "refuses", "load: not one pair in the window"),
    ("load", "gives no token", "load: a 201 without Lock-Token"),
    ("load", "hangs up", "load: not one pair in the window"),
    ("load", "is silent", "load: not one pair in the window"),
    ("contend", "is silent", "contend: not one grant in the window"),
    ("contend", "hangs up", "contend: a connection was closed on us"),
    (
        "contend",
        "grants to all",
        "1 hold the key, 1 of them to write, and caller 1 got it to write",
    ),
    ("readers", "refuses its script", "readers: SCRIPT LOAD %s: ERR refused"),
    ("readers", "breaks in its script", "readers: the master refuses: ERR refused"),
    ("readers", "releases nothing", "readers: the master does not count what scripts take"),
    ("instructions", "refuses its script", "instructions: SCRIPT LOAD: ERR refused"),
    ("instructions", "breaks in its script", "instructions: marker: ERR refused"),
    ("instructions", "releases nothing", "instructions: marker: not a possible reply"),
    ("hold", "is held by others", "hold: 104 refusals for 3 locks, the last one with 409"),
    ("hold", "gives no token", "hold: a 201 without Lock-Token"),
    ("hold", "hangs up", "hold: a connection was closed on us"),
    ("park", "refuses", "park: a connection is of no use"),
    ("park", "hangs up", "park: a connection is of no use"),
)


async def serve_master(replies, reader, writer):
    """Answers each command of an array of bulk strings by its name."""
    script, set_nx, evalsha = replies
    named = {b"SCRIPT": script, b"SET": set_nx, b"EVALSHA": evalsha}
    while head := await reader.readline():
        words = []
        for _ in range(int(head[1:])):
            length = int((await reader.readline())[1:])
            words.append((await reader.readexactly(length + 2))[:-2])
        reply = named.get(words[0].upper(), YES)
        if reply is not None:
            writer.write(reply)


async def serve_agent(answer, reader, writer):
    while await reader.readline():
        while (await reader.readline()).strip():
            pass
        if answer == b"":
            writer.close()
            return
        if answer is not None:
            writer.write(answer)


async def listen(serve, replies):
    async def on_connection(reader, writer):
        try:
            await serve(replies, reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


def arguments_of(tool, server_does, folder):
    if tool in ("readers", "instructions"):
        config = pathlib.Path(folder) / "one-master.yaml"
        config.write_text("redis: {groups: {main: {masters: [redis://127.0.0.1:1]}}}\n")
        more = ["--live", "1", "--seconds", "0.1"] if tool == "readers" else []
        return ["--config", str(config), *more]
    arguments = ["--callers", "1"]
    if server_does == "grants to all":
        arguments = ["--callers", "2", "--hold", "1000"]
    if tool == "hold":
        return [*arguments, "--held", "3"]
    return [*arguments, "--seconds", "0.1", "--warmup", "0"]


async def check_tool(build, redis_py, slots, folder, case):
    """Returns the error in it; None when it fails as it must."""
    tool, server_does, wanted = case
    on_master = tool in ("bare", "naive", "redis-py", "readers", "instructions")
    if on_master:
        server, port = await listen(serve_master, MASTERS[server_does])
    else:
        server, port = await listen(serve_agent, AGENTS[server_does])
    program = redis_py if tool == "redis-py" else [str(build / "tests/bench" / tool)]
    arguments = ["--master" if on_master else "--port", str(port)]
    arguments += arguments_of(tool, server_does, folder)
    async with slots:
        process = await asyncio.create_subprocess_exec(
            *map(str, program), *arguments, stdin=-3, stdout=-1, stderr=-1
        )
        try:
            out, said = await asyncio.wait_for(process.communicate(), 60)
        except asyncio.TimeoutError:
            process.kill()
            return f"{tool}, {server_does}: does not end"
    server.close()
    said = said.decode()
    if process.returncode == 0 or wanted not in said or out.strip():
        return f"{tool}, {server_does}: exit code {process.returncode}, {said!r}, {out!r}"
    return None


async def check_tools(build):
    redis_py = bench.Peers.find_redis_py(bench.Peers(build, wanted=False))
    cases = [case for case in CASES if redis_py or case[0] != "redis-py"]
    slots = asyncio.Semaphore(8)
    with tempfile.TemporaryDirectory() as folder:
        tools = (check_tool(build, redis_py, slots, folder, case) for case in cases)
        found = await asyncio.gather(*tools)
    return len(cases), list(filter(None, found))


def check_driver(build):
    """An agent that ends at once must not give a row of zeros."""
    script = pathlib.Path(bench.__file__)
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "agent"
        fake.write_text("#!/bin/sh\necho no agent >&2\n")
        fake.chmod(0o755)
        command = [sys.executable, script, build, "--quick", "--only", "start"]
        ran = subprocess.run(
            command, env={**os.environ, "AGENT": str(fake)}, capture_output=True, text=True
        )
    if ran.returncode == 0 or "the agent ended: no agent" not in ran.stderr:
        return [f"bench.py with an agent that ends: {ran.returncode}, {ran.stderr!r}"]
    return []


def check_rows():
    """A row that failed is kept as a failure, under its name, and not as a result."""
    theatre = stage.Stage("/nonexistent")
    measured = bench.Bench(theatre, None, None)
    with measured.row("pairs", 64, "bare"):
        raise stage.Failure("it did nothing")
    if measured.records or measured.failures != ["pairs, 64, bare, round 0: it did nothing"]:
        return [f"a row that did nothing: {measured.records}, {measured.failures}"]
    return []


def check_report():
    about = {"few": 16, "rounds": 3, "seconds": 1, "machine": "a machine", "appendonly": "no"}
    about |= {
        "sources": "0123456789ab",
        "peers": {},
        "skipped": {"redsync": "Go is missing"},
        "quick": False,
    }
    records = [
        {
            "section": "pairs",
            "row": "64",
            "who": who,
            "round": n,
            "pairs_per_s": rate * n,
            "foreign": 0,
        }
        for n in (1, 2, 3)
        for who, rate in (("lockagent", 400), ("redsync", 100))
    ]
    text = report.markdown({"about": about, "records": records, "failures": []})
    wanted = ("| pairs/s at 64 callers | 800 | 200 (redsync) | 4.00 | at least 4.50 | **no** |",)
    wanted += ("| pairs/s at 16 callers | - | - (redsync) | - | at least 3.00 | not measured |",)
    wanted += ("Skipped: redsync, Go is missing.", "| 64 | 800 | 200 | 4.00 | - |")
    picture = plot.svg([("lockagent", "lockagent", [(1, 100), (64, 800)])])
    found = [f"not in the report: {line}" for line in wanted if line not in text]
    return found + ([] if picture.count("<circle") == 3 else ["the plot lacks points"])


def check_program():
    """A page of another program is refused. One changed byte makes another program."""
    page, found = "The program is of\nthe sources `0123456789ab`.", []
    if program.fault(page, "0123456789ab") or not program.fault(page, "0123456789ac"):
        found.append("a page of other sources is not refused")
    if not program.fault("Five masters", "0123456789ab"):
        found.append("a page that names no sources is not refused")
    with tempfile.TemporaryDirectory() as folder:
        room = pathlib.Path(folder) / "agent"
        room.mkdir()
        names = set()
        for text in "a", "b", "a":
            (room / "a.c").write_text(text)
            names.add(program.sources(pathlib.Path(folder)))
    if len(names) != 2:
        found.append(f"two programs have {len(names)} names")
    return found


def check_instructions():
    """A row 4 % above its figure fails, and so does one that is missing on either side."""
    allowed = {"bare-1": 1000, "more-1": 1000, "less-1": 1000, "missing-1": 1000}
    measured = {"bare-1": 1020.4, "more-1": 1040, "less-1": 960, "new-1": 1000}
    wanted = {
        "bare-1": ("+2.0%", True),
        "more-1": ("+4.0%: too many", False),
        "less-1": ("-4.0%: lower the figure with make instructions WRITE=1", True),
        "new-1": ("has no allowed figure: make instructions WRITE=1", False),
        "missing-1": ("was not measured", False),
    }
    got = {name: (state, good) for name, state, good in instructions.judge(measured, allowed)}
    found = [
        f"instructions, {name}: {got.get(name)}" for name in wanted if got.get(name) != wanted[name]
    ]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        is_good = instructions.report(measured, allowed)
    closing = printed.getvalue().splitlines()[-1]
    if is_good or closing != "2 passed, 3 failed":
        found.append(f"instructions.py with bad rows: {is_good}, {closing!r}")
    part = "fn=(3) main\n1 70\ncfn=(5) serverCron\ncalls=1 0 \n9 20\n"
    part += "cfn=(5)\ncalls=2 0 \n9 10\ntotals: 100\n"
    if instructions.instructions_of(part) != 70:
        found.append(f"work that the clock started: {instructions.instructions_of(part)}")
    if instructions.read_list(instructions.print_list("redis 7", {"a-1": 7.6}))[1] != {"a-1": 8}:
        found.append("a list that was written is not read")
    return found


def main():
    build = pathlib.Path(sys.argv[1])
    tools, found = asyncio.run(check_tools(build))
    checks = (check_rows, check_report, check_program, check_instructions)
    checks += (lambda: check_driver(build),)
    for check in checks:
        found += check()
    print(*found, f"{tools + len(checks) - len(found)} passed, {len(found)} failed", sep="\n")
    sys.exit(len(found) > 0)


if __name__ == "__main__":
    main()
