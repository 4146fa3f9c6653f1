#!/usr/bin/env python3
"""Runs an Alertmanager with alertmanager.yaml, tells it of alerts, and reads which of them it
silences: inhibition_test.py ALERTMANAGER.YAML. Without Alertmanager it says so and runs nothing."""
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

QUORUM = ("LockagentQuorumUnavailable", "main", "")
LOST = ("LockagentLocksLost", "", "quorum_lost")
TAKEN = ("LockagentLocksLost", "", "taken")
FEW = ("LockagentFewWithoutQuorum", "main", "")
DOWN, DOWN_ELSEWHERE = ("LockagentMasterDown", "main", ""), ("LockagentMasterDown", "side", "")
UNREACHED = ("LockagentMasterUnreached", "main", "")
DROPPED = ("LockagentReleasesDropped", "main", "")
DISAGREES = ("LockagentLayoutDisagrees", "main", "")
MIXED = ("LockagentLayoutsMixed", "main", "")
AT_RISK = ("LockagentQuorumAtRisk", "main", "")

# Alerts that fire together, and those of them that stay silent.
CASES = (
    ([QUORUM, DOWN, LOST, TAKEN, DOWN_ELSEWHERE], [DOWN, LOST]),
    ([QUORUM, UNREACHED, DROPPED, AT_RISK], [UNREACHED, DROPPED, AT_RISK]),
    ([FEW, UNREACHED, DROPPED, LOST], [UNREACHED, DROPPED]),
    ([DOWN, AT_RISK, UNREACHED, LOST], [UNREACHED]),
    ([DOWN_ELSEWHERE, UNREACHED], []),
    ([DISAGREES, MIXED], [MIXED]),
    ([MIXED, LOST, TAKEN], []),
)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, alerts=None):
    body = None if alerts is None else json.dumps(alerts).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v2/alerts", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=10) as reply:
        text = reply.read()
    return json.loads(text) if body is None else None


def labels_of(alert, case):
    """Each case has a job of its own, so that the cases do not meet."""
    name, group, reason = alert
    labels = {"alertname": name, "job": f"lockagent-{case}", "group": group, "reason": reason}
    return {label: value for label, value in labels.items() if value}


def differences(port):
    for case, (firing, _) in enumerate(CASES):
        ask(port, [{"labels": labels_of(alert, case)} for alert in firing])
    seen = {
        tuple(sorted(alert["labels"].items())): alert["status"]["inhibitedBy"]
        for alert in ask(port)
    }
    for case, (firing, silent) in enumerate(CASES):
        for alert in firing:
            key = tuple(sorted(labels_of(alert, case).items()))
            if key not in seen:
                yield f"case {case}: {alert} is not known"
            elif bool(seen[key]) != (alert in silent):
                yield f"case {case}: {alert} is {'' if seen[key] else 'not '}silenced"


def run(program, config, folder):
    port = free_port()
    process = subprocess.Popen(
        [
            program,
            f"--config.file={config}",
            f"--storage.path={folder}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
        ],
        stdout=subprocess.DEVNULL,
        stderr=open(pathlib.Path(folder, "log"), "w"),
    )
    try:
        for _ in range(200):
            try:
                ask(port)
                break
            except (urllib.error.URLError, ConnectionError):
                if process.poll() is not None:
                    break
                time.sleep(0.1)
        if process.poll() is not None:
            return [pathlib.Path(folder, "log").read_text()]
        return list(differences(port))
    finally:
        process.terminate()
        process.wait()


def main():
    config = sys.argv[1]
    program = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if program is None:
        print("inhibitions: not run, there is no Alertmanager (Debian: prometheus-alertmanager)")
        return False
    with tempfile.TemporaryDirectory() as folder:
        found = run(program, config, folder)
    print(*found, f"{len(CASES)} inhibitions, {len(found)} differences", sep="\n")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
