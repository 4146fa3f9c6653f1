#!/usr/bin/env python3
"""The costs of masters for agents that have nothing to do: fleet.py [BUILD FOLDER].

Starts so many real agents over five masters, waits until their group is idle (D5.3) or keeps them
at work, and prints the CPU, the bytes and the memory of a master for each agent. CPU is that of
the masters' processes, so others' load on the machine matters little.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import time

import stage
from stage import Failure, wait_for

FLEET = 10_000  # for which the costs are added up
IDLE_AFTER_S, SETTLED_S = 6, 12
ALONE_S = 5  # how long masters without agents are measured, for their own costs
STARTED_AT_ONCE = 50


def info(master, section):
    lines = (line.partition(":") for line in master.ask(f"INFO {section}").splitlines())
    return {name: value for name, _, value in lines}


def connections(master):
    return int(info(master, "clients")["connected_clients"])


class Fleet:
    """Agents without callers. They share a configuration; each has a socket of its own."""

    def __init__(self, theatre, count, at_work):
        self.stage, self.count = theatre, count
        self.at_work = at_work

    def config(self, number):
        path = self.stage.folder / f"agent-{number}.yaml"
        urls = ", ".join(f"redis://127.0.0.1:{master.port}" for master in self.stage.masters)
        longest = "1h" if self.at_work else "5s"
        path.write_text(
            f"listen: unix:{self.stage.folder}/agent-{number}\n"
            f"redis: {{groups: {{main: {{masters: [{urls}], durable: true}}}}}}\n"
            f'policies: [{{match: "*", ttl: 5s}}]\nlimits: {{max_ttl: {longest}, locks: 100}}\n'
            "log: {level: error, format: text}\n"
        )
        return path

    def start(self):
        for number in range(self.count):
            log = self.stage.folder / f"agent-{number}.log"
            agent = stage.Process(log, self.stage.program, "--config", self.config(number))
            self.stage.others.append(agent)
            if (number + 1) % STARTED_AT_ONCE == 0:
                self.wait_until_connected(number + 1)
        self.wait_until_connected(self.count)

    def wait_until_connected(self, agents):
        def all_there():
            for agent in self.stage.others:
                if not agent.lives():
                    raise Failure(f"an agent ended: {agent.said()}")
            try:
                return all(connections(master) > agents for master in self.stage.masters)
            except OSError:  # it greets many agents just now
                return False

        wait_for(f"{agents} agents on each master", all_there, 120)

    def look(self):
        """CPU, bytes and calls of the masters until now."""
        found = []
        for master in self.stage.masters:
            stats = info(master, "stats")
            found.append(
                {
                    "cpu_us": stage.cpu_s(master.pid) * 1e6,
                    "in": int(stats["total_net_input_bytes"]),
                    "out": int(stats["total_net_output_bytes"]),
                    "questions": master.commands({"evalsha"}),
                    "calls": int(stats["total_commands_processed"]),
                }
            )
        return found

    def memory(self):
        return [int(info(master, "memory")["used_memory"]) for master in self.stage.masters]

    def measure(self, seconds):
        """The costs of all agents in a second, as medians over the masters."""
        began, before = time.monotonic(), self.look()
        time.sleep(seconds)
        after, took = self.look(), time.monotonic() - began
        costs = {}
        for name in before[0]:
            grown = [b[name] - a[name] for a, b in zip(before, after)]
            costs[name] = statistics.median(grown) / took
        if self.stage.others and costs["questions"] <= 0:
            raise Failure("no agent has asked for a marker: nothing was measured")
        for master in self.stage.masters:
            if connections(master) <= len(self.stage.others):
                raise Failure("an agent lost a master while it was measured")
        return costs


def report(fleet, costs, bytes_each):
    state = "at work" if fleet.at_work else "idle"
    print(f"{fleet.count} agents, {state}; for each of them a master has")
    print(f"  CPU                {costs['cpu_us']:8.1f} us/s")
    print(f"  markers asked for  {costs['questions']:8.2f} /s")
    print(f"  calls              {costs['calls']:8.2f} /s")
    print(f"  bytes received     {costs['in']:8.0f} /s")
    print(f"  bytes sent         {costs['out']:8.0f} /s")
    print(f"  memory             {bytes_each:8.0f} bytes")
    print(
        f"{FLEET:,} agents: {costs['cpu_us'] * FLEET / 1e6:.2f} of a core, "
        f"{(costs['in'] + costs['out']) * FLEET / 1e6:.1f} MB/s, "
        f"{bytes_each * FLEET / 2**20:.0f} MiB a master"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default=stage.TOP / "build-bench", type=pathlib.Path)
    parser.add_argument("--agents", type=int, default=1000, help="at least 1")
    parser.add_argument("--seconds", type=float, default=30, help="at least 10")
    parser.add_argument("--at-work", action="store_true", help="their group is not idle")
    options = parser.parse_args()
    if options.agents < 1 or options.seconds < 10:
        parser.error(f"--agents {options.agents} --seconds {options.seconds}: at least 1 and 10")
    try:
        with stage.Stage(options.build) as theatre:
            theatre.start_masters()
            fleet = Fleet(theatre, options.agents, options.at_work)
            empty, alone = fleet.memory(), fleet.measure(ALONE_S)
            fleet.start()
            time.sleep(SETTLED_S if options.at_work else IDLE_AFTER_S + SETTLED_S)
            grown = [b - a for a, b in zip(empty, fleet.memory())]
            costs = fleet.measure(options.seconds)
            for name in costs:
                costs[name] = (costs[name] - alone[name]) / options.agents
            report(fleet, costs, statistics.median(grown) / options.agents)
    except (Failure, OSError, subprocess.SubprocessError, RuntimeError) as failure:
        print(f"fleet.py: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
