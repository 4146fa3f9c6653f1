#!/usr/bin/env python3
"""Shows the rules 200 agents that lose three of five masters, and one agent that alone reaches too
few of them: fleet_test.py RULES. An outage is one alert a kind, however many agents see it."""
import json
import pathlib
import subprocess
import sys
import tempfile

AGENTS, MASTERS = 200, 5
POLICIES = 4  # A query of promtool takes 10,000 samples: 200 agents, 4 policies, 10 minutes.
STEP = 2  # minutes between two samples
SAMPLES, BEGIN, END = 22, 6, 13


def steps(before, during, after=None):
    """The values of a series that changes when the outage begins and when it ends."""
    after = before if after is None else after
    return f"{before}x{BEGIN - 1} {during}x{END - BEGIN - 1} {after}x{SAMPLES - END}"


def grows(by):
    """The values of a counter that grows during the outage only."""
    top = by * (END - BEGIN)
    return f"0x{BEGIN - 1} 0+{by}x{END - BEGIN - 1} {top}x{SAMPLES - END}"


def agent(name, is_out):
    """The series of one agent that the rules read. With `is_out` it loses three masters."""
    of = f'job="lockagent",instance="{name}"'
    group = f'{of},group="main"'
    yield f"up{{{of}}}", steps(1, 1)
    yield f"lockagent_group_masters{{{group}}}", steps(MASTERS, MASTERS)
    yield f"lockagent_group_quorum{{{group}}}", steps(3, 3)
    yield f"lockagent_group_masters_up{{{group}}}", steps(5, 2 if is_out else 5)
    yield f"lockagent_group_masters_voting{{{group}}}", steps(5, 2 if is_out else 5)
    yield f"lockagent_quorum_available{{{group}}}", steps(1, 0 if is_out else 1)
    yield f"lockagent_releases_dropped_total{{{group}}}", grows(7 if is_out else 0)
    yield f"lockagent_group_rounds_waiting{{{group}}}", steps(0, 0)
    for master in range(MASTERS):
        at = f'{group},master="m{master}"'
        is_away = is_out and master < 3
        yield f"lockagent_master_up{{{at}}}", steps(1, 0 if is_away else 1)
        yield f"lockagent_master_degraded{{{at}}}", steps(0, 0)
        yield f"lockagent_master_release_debt{{{at}}}", grows(40 if is_away else 0)
        yield f"lockagent_master_clock_offset_seconds{{{at}}}", steps(0, 0)
    for policy in range(POLICIES):
        at = f'{of},policy="p{policy}/*"'
        yield f"lockagent_locks_held{{{at}}}", steps(20, 0 if is_out else 20)
        lost = 20 if is_out else 0
        yield f'lockagent_locks_lost_total{{{at},reason="quorum_lost"}}', steps(0, lost, lost)


def fleet(out):
    """The series of all agents, of which the first `out` lose masters."""
    return [pair for i in range(AGENTS) for pair in agent(f"pod-{i}", i < out)]


def one_gone():
    """All agents, of which one cannot be scraped for a while."""
    of = 'up{job="lockagent",instance="pod-%d"}'
    return [(of % i, steps(1, 0 if i == 0 else 1)) for i in range(AGENTS)]


def timeline(name, pairs, expected):
    """A test of promtool: the series during an outage, when the `expected` alerts fire."""
    series = [{"series": name, "values": values} for name, values in pairs]
    firing = 'count by (alertname) (ALERTS{alertstate="firing"})'
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1} for alert in expected]
    return {
        "name": name,
        "interval": f"{STEP}m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": firing, "eval_time": f"{STEP * (BEGIN - 1)}m"},
            {"expr": firing, "eval_time": f"{STEP * (BEGIN + 4)}m", "exp_samples": samples},
            {"expr": firing, "eval_time": f"{STEP * (SAMPLES - 1)}m"},
        ],
    }


def main():
    rules = pathlib.Path(sys.argv[1]).resolve()
    test = {
        "rule_files": [str(rules)],
        "evaluation_interval": "1m",
        "tests": [
            timeline(
                "three of five masters are away for all",
                fleet(out=AGENTS),
                ["LockagentLocksLost", "LockagentMasterDown", "LockagentQuorumUnavailable"],
            ),
            timeline(
                "one agent is cut off",
                fleet(out=1),
                [
                    "LockagentFewWithoutQuorum",
                    "LockagentLocksLost",
                    "LockagentMasterUnreached",
                ],
            ),
            timeline("one agent is gone", one_gone(), ["LockagentFewDown"]),
        ],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "fleet.yaml")  # JSON is YAML.
        path.write_text(json.dumps(test))
        done = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True)
    failed = done.returncode != 0
    print(done.stdout[-8000:] + done.stderr[-8000:] if failed else "", end="")
    print(f"{AGENTS} agents: {'the alerts are others' if failed else 'three alerts an outage'}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
