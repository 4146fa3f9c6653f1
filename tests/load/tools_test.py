#!/usr/bin/env python3
"""The programs of the load suite against agents that are made up: each loss is seen, each late
answer counts, and strangers follow their arguments. tools_test.py BUILD_DIR"""
import asyncio
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import time

import run

TTL_MS = 2500
TOKEN = "0123456789abcdef0123456789abcdef01234567.7"
PHASE_S = 3.0


def boottime_ms():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000


def hold(**more):
    return json.dumps({"valid_until_boottime_ms": boottime_ms() + TTL_MS, **more})


def answer(status, body="", *fields):
    fields = [*fields, f"Content-Length: {len(body)}"]
    return f"HTTP/1.1 {status} Said\r\n" + "\r\n".join(fields) + f"\r\n\r\n{body}"


class Agent:
    """A good one. The others below do one thing otherwise."""

    def __init__(self):
        self.asked, self.connections = [], 0

    async def put(self, _writer):
        return answer(200, hold())

    async def livez(self):
        return answer(200, "ok")

    async def watch(self, writer):
        """Each line comes in two chunks, as TCP and HTTP allow."""
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for event in "held", *["renewed"] * 100:
            line = hold(event=event) + "\n"
            for part in line[:20], line[20:]:
                writer.write(f"{len(part):x}\r\n{part}\r\n".encode())
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                self.asked.append(head)
                method, target, _ = head.split(maxsplit=2)
                if method == "POST":
                    said = answer(201, hold(), f"Lock-Token: {TOKEN}")
                elif target == "/livez":
                    said = await self.livez()
                elif method == "PUT":
                    said = await self.put(writer)
                else:
                    said = await self.watch(writer)
                writer.write((said or "").encode())
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        writer.close()


class Denies(Agent):
    async def put(self, _writer):
        return answer(410, "{}")


class Adopts(Agent):
    async def put(self, _writer):
        return answer(200, hold(adopted=True))


class Refuses(Agent):
    async def put(self, _writer):
        return answer(503, "{}")


class Loses(Agent):
    async def watch(self, writer):
        line = hold(event="lost", reason="stalled") + "\n"
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{len(line):x}".encode())
        writer.write(f"\r\n{line}\r\n0\r\n\r\n".encode())
        await asyncio.sleep(1)


class Silent(Agent):
    async def watch(self, _writer):
        await asyncio.sleep(60)


class Late(Agent):
    async def put(self, _writer):
        await asyncio.sleep(0.2)
        return answer(200, hold())

    async def livez(self):
        await asyncio.sleep(0.2)
        return answer(200, "ok")


class HangsUp(Agent):
    async def put(self, writer):
        if self.connections < 8:
            writer.close()
            return ""
        return answer(200, hold())


async def with_agent(agent, work):
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        return await asyncio.to_thread(work, port)
    finally:
        server.close()


def run_holders(build, agent):
    """The figures of one phase, with two locks of each kind."""

    def work(port):
        command = [build / "tests/load/load-holders", "127.0.0.1", str(port), "2", "2"]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as holders:
            assert holders.stdout.readline() == "ready\n"
            time.sleep(PHASE_S)
            holders.stdin.write("\n")
            holders.stdin.flush()
            return json.loads(holders.stdout.readline())

    return asyncio.run(with_agent(agent, work))


def run_strangers(build, agent, *words):
    def work(port):
        command = [build / "tests/load/load-strangers", "--seconds", "1", *words]
        command[-1:] = ["127.0.0.1", str(port), words[-1]]
        return json.loads(subprocess.check_output(command, text=True))

    return asyncio.run(with_agent(agent, work))


def lost(figures, word):
    return sum(word in line for line in figures["lost"])


def check_slowness():
    """A slow machine has more time, and no machine has less."""
    outcome = run.Outcome()
    outcome.figures = {"livez_p99": 90.0, "put_p99": 90.0}
    assert not run.is_in_time(outcome), "90 ms of /livez are in time"
    outcome.slowness = 2.0
    assert run.is_in_time(outcome), "90 ms on a slow machine are not in time"
    outcome.figures["put_p99"] = 210.0
    assert not run.is_in_time(outcome), "210 ms of PUT are in time"
    assert run.slowness() >= 1.0


def main():
    check_slowness()
    build = pathlib.Path(sys.argv[1]).resolve()
    agents = Agent, Denies, Adopts, Refuses, Loses, Silent, Late, HangsUp
    with concurrent.futures.ThreadPoolExecutor(len(agents)) as threads:
        found = list(threads.map(lambda agent: run_holders(build, agent()), agents))
    good, denied, adopted, refused, told, silent, late, hung_up = found
    assert not good["lost"] and good["renewed"] > 4 and good["put_p99"] < 1000, good
    assert good["puts"]["200"] > 4 and good["livez_count"] > 40, good
    assert lost(denied, "PUT was answered 410") == 2, denied
    assert lost(adopted, "adopted") == 2, adopted
    assert lost(refused, "validity ended") == 2, refused
    assert lost(told, "stalled") == 2, told
    assert lost(silent, "validity ended") == 2, silent
    assert not late["lost"] and late["put_p50"] > 190 and late["livez_p50"] > 90, late
    assert not hung_up["lost"] and hung_up["broken"] > 0 and hung_up["puts"]["200"] > 0, hung_up

    livez = "GET /livez HTTP/1.1\r\nX: {n}.{i}\r\n\r\n"
    agent = Agent()
    report = run_strangers(build, agent, "--connections", "5", livez)
    assert report["open"] == 5 and report["answers"] == report["200"] > 5, report
    assert any("X: 4.1\r\n" in head for head in agent.asked) and agent.connections == 5
    agent = Agent()
    report = run_strangers(build, agent, "--connections", "5", "--pace", "100", livez)
    assert 5 <= report["answers"] <= 55, report
    agent = Agent()
    report = run_strangers(build, agent, "--connections", "5", "--fresh", livez)
    assert agent.connections >= report["answers"] > 5, report
    agent = Agent()
    report = run_strangers(build, agent, "--connections", "5", "--mute", livez)
    assert report["answers"] == 0 and len(agent.asked) == 5, report
    print("the programs of the load suite see what they are to see")


if __name__ == "__main__":
    main()
