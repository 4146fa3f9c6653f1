#!/usr/bin/env python3
"""The cost of each operation of an agent for one of its masters: costs.py [BUILD FOLDER].

Five real masters and one agent; the callers ask one thing after the other on a few connections, so
that most calls have few locks. This is the cost of each under a small load; a large load costs
less. CPU is that of a master's process, the mean of the five; bytes are of used_memory, and of
MEMORY USAGE. Beside each figure is the one by which `lockagent capacity` reckons, of
agent/capacity/costs.h.
"""
import argparse
import http.client
import pathlib
import re
import socket
import statistics
import sys
import threading
import time

from stage import MASTERS, Stage, cpu_s, wait_for

CALLERS, KEYS, WAITERS, MORE_AGENTS, REST_S, TRIES = 16, 6000, 300, 12, 5, 20
TABLE = pathlib.Path(__file__).resolve().parents[2] / "agent/capacity/costs.h"
LARGE = "{locks: 20000}"


def masters_cpu_us(stage):
    return 1e6 * statistics.mean(cpu_s(master.pid) for master in stage.masters)


def used_bytes(stage):
    found = [
        re.search(r"^used_memory:(\d+)", master.ask("INFO memory"), re.M)[1]
        for master in stage.masters
    ]
    return statistics.mean(map(int, found))


def ask_all(agent, method, paths, wanted):
    """Each path once, by CALLERS connections; the tokens that came back, by path."""
    tokens, wrong = {}, []

    def caller(own):
        connection = http.client.HTTPConnection("127.0.0.1", agent.port, timeout=20)
        for path, token in own:
            for _ in range(TRIES):
                connection.request(method, path, headers={"Lock-Token": token} if token else {})
                answer = connection.getresponse()
                body = answer.read().decode()
                if answer.status != 503:  # masters were late, as they are on a busy machine
                    break
            if answer.status != wanted:
                wrong.append(f"{method} {path}: {answer.status} {body}")
            found = re.search(r'"token":\s*"([^"]+)"', body)
            tokens[path] = found and found[1]
        connection.close()

    threads = [threading.Thread(target=caller, args=(paths[i::CALLERS],)) for i in range(CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit(f"{len(wrong)} answers are wrong: {wrong[0]}")
    return tokens


class Costs:
    def __init__(self, stage):
        self.stage, self.found, self.upkeep_us = stage, {}, 0.0

    def measure(self, name, count, step):
        """us of a master for each of `count`, without its cost at rest."""
        before, began = masters_cpu_us(self.stage), time.monotonic()
        result = step()
        lasted = time.monotonic() - began
        spent = masters_cpu_us(self.stage) - before - self.upkeep_us * lasted
        self.found[name] = spent / count
        return result

    def ask_number(self, command):
        return int(self.stage.masters[0].ask(command).lstrip(":"))

    def rest(self, seconds=REST_S):
        before = masters_cpu_us(self.stage)
        time.sleep(seconds)
        return (masters_cpu_us(self.stage) - before) / seconds

    def agents(self):
        alone = self.rest()
        before = used_bytes(self.stage)
        more = [self.stage.ready_agent() for _ in range(MORE_AGENTS)]
        many = self.rest()
        self.found["AGENT_US"] = (many - alone) / MORE_AGENTS
        self.found["CONNECTION_BYTES"] = (used_bytes(self.stage) - before) / MORE_AGENTS
        for agent in more:
            self.stage.end(agent)

    def leases(self, agent):
        self.upkeep_us = self.rest()
        names = [f"/locks/costs-of-a-lock-{i:08}" for i in range(KEYS)]
        bare = [(f"{name}?ttl=60s&renew=caller", None) for name in names]
        before, keys = used_bytes(self.stage), self.ask_number("DBSIZE")
        held = self.measure("ACQUIRE_US", KEYS, lambda: ask_all(agent, "POST", bare, 201))
        grown = used_bytes(self.stage) - before
        buckets = self.ask_number("DBSIZE") - keys - KEYS
        a_lock = self.ask_number(f"MEMORY USAGE lock:{names[0][7:]}")
        a_bucket = self.ask_number(
            "EVAL \"return redis.call('MEMORY', 'USAGE', "
            "redis.call('KEYS', 'lockagent:number:*')[1])\" 0"
        )
        # of what tables and expiries take besides
        share = KEYS * a_lock / (KEYS * a_lock + buckets * a_bucket)
        self.found["LOCK_BYTES"] = grown * share / KEYS
        self.found["BUCKET_BYTES"] = grown * (1 - share) / buckets
        plain = [(name, None) for name in names]
        other = self.stage.ready_agent(LARGE)  # the one that holds them asks no master
        self.measure("REFUSAL_US", KEYS, lambda: ask_all(other, "POST", bare, 409))
        self.measure("READ_US", KEYS, lambda: ask_all(other, "GET", plain, 200))
        self.waiters(other, names)
        self.ticket(agent, other)
        self.stage.end(other)
        tokens = [(name, held[path]) for name, (path, _) in zip(names, bare)]
        self.measure("RELEASE_US", KEYS, lambda: ask_all(agent, "DELETE", tokens, 204))

    def waiters(self, agent, names):
        wires = []
        try:
            for name in names[:WAITERS]:
                wire = socket.create_connection(("127.0.0.1", agent.port))
                wires.append(wire)
                wire.sendall(f"POST {name}?wait=50s HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            time.sleep(2)  # until they have subscribed
            self.found["WAITER_US"] = (self.rest() - self.upkeep_us) / WAITERS
        finally:
            for wire in wires:
                wire.close()

    def ticket(self, agent, other):
        path = "/locks/fair-costs-of-a-ticket"
        ask_all(agent, "POST", [(path, None)], 201)
        with socket.create_connection(("127.0.0.1", other.port)) as wire:
            wire.sendall(f"POST {path}?wait=9s HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            master, key = self.stage.masters[0], f"lockagent:ticket:lock:{path[7:]}"
            wait_for("a ticket", lambda: master.ask(f"EXISTS {key}") == ":1")
            self.found["TICKET_BYTES"] = int(master.ask(f"MEMORY USAGE {key}")[1:])

    def renewals(self, agent):
        names = [f"/locks/kept-{i:08}?ttl=6s&renew=agent" for i in range(KEYS)]
        ask_all(agent, "POST", [(name, None) for name in names], 201)
        time.sleep(2)
        renewed = "lockagent_renewals_total{"
        began = masters_cpu_us(self.stage)
        before = agent.metric(renewed)
        time.sleep(2 * REST_S)
        count = agent.metric(renewed) - before
        spent = masters_cpu_us(self.stage) - began - self.upkeep_us * 2 * REST_S
        self.found["RENEWAL_US"] = spent / count
        # of each hold, in a time to live of 6 s
        self.found["RENEWALS_A_TTL"] = count / KEYS / (2 * REST_S) * 6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", nargs="?", default="build-bench")
    options = parser.parse_args()
    with Stage(options.build) as stage:
        stage.start_masters()
        agent = stage.ready_agent(LARGE)
        costs = Costs(stage)
        costs.agents()
        costs.leases(agent)
        costs.renewals(agent)
    reckoned = dict(re.findall(r"X\((\w+), ([\d.]+),", TABLE.read_text()))
    for name, value in costs.found.items():
        print(f"{name:18} {value:10.2f}   in the table: {reckoned[name]}")


if __name__ == "__main__":
    main()
