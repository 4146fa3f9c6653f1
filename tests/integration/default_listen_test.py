#!/usr/bin/env python3
"""The addresses on which an agent listens without a setting: default_listen_test.py LOCKAGENT. On
both loopbacks, and on a machine without IPv6 on one of them. Each machine is a network namespace,
which needs root; without it this is skipped."""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

SKIPPED, PATIENCE_S = 77, 20
CLONE_NEWNET = 0x40000000
NO_IPV6 = pathlib.Path("/proc/sys/net/ipv6/conf/all/disable_ipv6")
CONFIG = "redis: {groups: {main: {masters: [redis://127.0.0.1:1]}}}\n"


def answers(host):
    with contextlib.suppress(OSError):
        caller = http.client.HTTPConnection(host, 8080, timeout=PATIENCE_S)
        caller.request("GET", "/livez")
        return caller.getresponse().status == 200
    return False


def play(lockagent, folder, listen, expected, missing):
    """Starts an agent and looks which of the loopbacks answer; returns its log."""
    with open(f"{folder}/agent.yaml", "w", encoding="ascii") as config:
        config.write(CONFIG + listen)
    with open(f"{folder}/log", "wb") as log:
        agent = subprocess.Popen([lockagent, "--config", f"{folder}/agent.yaml"], stderr=log)
    try:
        until = time.monotonic() + PATIENCE_S
        while expected and not answers(expected[0]) and time.monotonic() < until:
            time.sleep(0.05)
        found = [host for host in ("127.0.0.1", "::1") if answers(host)]
        assert found == expected, f"{listen or 'by default'}: {found}"
        if not expected:
            assert agent.wait(PATIENCE_S) == 1
    finally:
        if agent.poll() is None:
            agent.send_signal(signal.SIGTERM)
        agent.wait()
    with open(f"{folder}/log", encoding="utf-8") as log:
        lines = [json.loads(line) for line in log]
    words = [(line["level"], line["address"]) for line in lines if "no IPv6" in line["msg"]]
    assert words == [("info", each) for each in missing], lines


def without_ipv6():
    try:
        NO_IPV6.write_text("1", encoding="ascii")
    except OSError:
        return False
    return True


def main(lockagent):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-n", "true"], check=False).returncode != 0:
        print("skipped: no network namespace can be made here")
        return SKIPPED
    if len(sys.argv) == 2:  # in a namespace of its own
        return subprocess.run(["unshare", "-n", *sys.argv, "here"], check=False).returncode
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory(prefix="lockagent-listen-") as folder:
        play(lockagent, folder, "", ["127.0.0.1", "::1"], [])
        if not without_ipv6():
            print("skipped: IPv6 can not be switched off here")
            return SKIPPED
        play(lockagent, folder, "", ["127.0.0.1"], ["[::1]:8080"])
        # an agent that must listen on IPv6 alone reports that there is none
        play(lockagent, folder, "listen: '[::1]:8080'\n", [], [])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
