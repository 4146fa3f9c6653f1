#!/usr/bin/env python3
"""Runs the servers of deploy/kubernetes here: servers_test.py LOCKAGENT.

Five redis-servers from masters/redis.conf with the rights of secrets.sh, agents from the
configurations of sidecar/, daemonset/ and node-service/, and the scripts of the samples beside
them. Only addresses and paths are others. Ends with 77 without python3-yaml.
"""
import contextlib
import ctypes
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(TOP / "tests/faults"))
from means import LIBC, PATIENCE_S, PR_SET_PDEATHSIG, eventually, free_ports

FOLDER = TOP / "deploy/kubernetes"


def see(what, is_so):
    if not is_so:
        raise AssertionError(what)
    print(f"seen: {what}")


class Stage:
    """The processes that are started here; all end with this process."""

    def __init__(self, lockagent, folder):
        self.lockagent, self.folder = lockagent, pathlib.Path(folder)
        *self.masters, self.api, self.metrics = free_ports(7)
        self.running = []
        made = subprocess.run([FOLDER / "secrets.sh", "here"], check=True, capture_output=True)
        secrets = [each["stringData"] for each in yaml.safe_load_all(made.stdout)]
        for name, text in (secrets[0] | secrets[1]).items():
            (self.folder / name).write_text(text)
        self.password = secrets[1]["password"]

    def start(self, name, *command):
        def with_us():
            LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))

        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command], stdout=log, stderr=log, preexec_fn=with_us
            )
        self.running.append(process)
        return process

    def start_master(self, port):
        home = self.folder / str(port)
        home.mkdir()
        place = ["--port", port, "--bind", "127.0.0.1", "--dir", home]
        rights = ["--aclfile", self.folder / "users.acl"]
        self.start(port, "redis-server", FOLDER / "masters/redis.conf", *place, *rights)

    def ask(self, port, *words, user=()):
        command = ["redis-cli", "-e", "-p", str(port), *user, *words]
        said = subprocess.run(command, check=False, capture_output=True, text=True)
        return (said.stdout + said.stderr).strip()

    def settings(self, place, password="password"):
        listen = f"unix:{self.folder}/api" if place == "daemonset" else f"127.0.0.1:{self.api}"
        group = "redis.groups.main"
        for setting in (
            f"listen={listen}",
            f"admin.listen=127.0.0.1:{self.metrics}",
            f"{group}.masters={','.join(f'redis://127.0.0.1:{port}' for port in self.masters)}",
            f"{group}.password_file={self.folder}/{password}",
            # five masters that share one disk take their time over fsync
            f"{group}.node_timeout=1s",
            f"journal.file={self.folder}/journal-{place}",
        ):
            yield from ("--set", setting)
        if place == "node-service":
            yield from ("--set", f"api.token_file={self.folder}/token")

    def first_votes(self):
        """The Job's command, with its configuration."""
        ran = subprocess.run(
            [
                *(self.lockagent, "trust", "--new", FOLDER / "masters/lockagent.yaml"),
                *self.settings("masters"),
            ],
            check=False,
            capture_output=True,
            text=True,
        )
        return ran.returncode, ran.stdout + ran.stderr

    def agent(self, place, password="password"):
        config = ["--config", FOLDER / place / "lockagent.yaml", *self.settings(place, password)]
        return self.start(place, self.lockagent, "serve", *config)

    def is_healthy(self, *words):
        command = [self.lockagent, "healthcheck", *words]
        address = ["--address", f"127.0.0.1:{self.metrics}"]
        return subprocess.run(command + address, check=False, capture_output=True).returncode == 0

    def call(self, method, path, *words, place="sidecar"):
        """An answer of the agent: its status, and its body."""
        url = f"http://localhost:{self.api}{path}"
        if place == "daemonset":
            words += ("--unix-socket", f"{self.folder}/api")
        command = ["curl", "-s", "-X", method, url, "-w", "\n%{http_code}", *words]
        said = subprocess.run(command, check=False, capture_output=True, text=True).stdout
        body, _, status = said.rpartition("\n")
        return int(status), json.loads(body) if body.startswith("{") else body

    def script(self, sample):
        """The command of a sample's app, at this agent."""
        (path,) = (FOLDER / sample).glob("[dj]*.yaml")
        made = yaml.safe_load(path.read_text())
        (app,) = made["spec"]["template"]["spec"]["containers"]
        words = app["command"] + app["args"]
        return [word.replace("localhost:8080", f"127.0.0.1:{self.api}") for word in words]

    def state(self, key):
        return self.call("GET", f"/locks/{key}")[1]["state"]

    def masters_with(self, key):
        user = ("--user", "lockagent", "--pass", self.password, "--no-auth-warning")
        return sum(self.ask(port, "exists", key, user=user) == "1" for port in self.masters)

    def logs(self):
        """The last lines of each."""
        for path in sorted(self.folder.glob("*.log")):
            yield from (f"{path.stem}: {line}" for line in path.read_text().splitlines()[-8:])

    def close(self):
        for process in self.running:
            process.kill()
            process.wait()


def masters_start(stage):
    for port in stage.masters:
        stage.start_master(port)
    for port in stage.masters:
        see(f"{port} answers PING", eventually(lambda: stage.ask(port, "ping") == "PONG"))
    port = stage.masters[0]
    see("without a password nothing else", "NOPERM" in stage.ask(port, "get", "lock:a"))
    see("a wrong one is refused", "WRONGPASS" in stage.ask(port, "auth", "lockagent", "wrong"))
    user = ("--user", "lockagent", "--pass", stage.password, "--no-auth-warning")
    see(
        "the agents' user may read locks",
        "NOPERM" not in stage.ask(port, "get", "lock:a", user=user),
    )
    see("and no other key", "NOPERM" in stage.ask(port, "get", "other", user=user))
    see("nor the configuration", "NOPERM" in stage.ask(port, "config", "get", "*", user=user))


def first_votes(stage):
    for said in ("new: all 5 masters vote now", "all masters vote already"):
        ended = stage.first_votes()
        see(f"the Job of the first votes: {ended}", ended == (0, f"main: {said}\n"))


def no_quorum_no_start(stage):
    (stage.folder / "wrong").write_text("wrong")
    agent = stage.agent("sidecar", password="wrong")
    see("without masters the agent is alive", eventually(stage.is_healthy))
    time.sleep(0.5)
    see("and not ready", not stage.is_healthy("--ready"))
    agent.send_signal(signal.SIGTERM)
    see("it ends in order", agent.wait(PATIENCE_S) == 0)


def death_ends_nothing(stage):
    agent = stage.agent("sidecar")
    see("the quorum is there: ready", eventually(lambda: stage.is_healthy("--ready")))
    status, grant = stage.call("POST", "/locks/app")
    see(f"granted: {grant}", status == 201)
    agent.kill()
    agent.wait()
    agent = stage.agent("sidecar")
    see("a new process is ready", eventually(lambda: stage.is_healthy("--ready")))
    token = ("-H", f"Lock-Token: {grant['token']}")
    status, again = stage.call("PUT", "/locks/app", *token)
    see(f"the hold goes on: {again}", status == 200)
    see("nobody else has it", stage.call("POST", "/locks/app")[0] == 409)
    see("it is given back", stage.call("DELETE", "/locks/app", *token)[0] == 204)
    return agent


def samples_run(stage):
    job = stage.start("job", *stage.script("job"))
    see("the Job completes", job.wait(PATIENCE_S) == 0)
    see("and leaves nothing", stage.state("jobs/nightly") == "free")
    app = stage.start("app", *stage.script("app"))
    see("the app has its lock", eventually(lambda: stage.state("app") == "held"))
    app.send_signal(signal.SIGTERM)
    see("it ends at SIGTERM", app.wait(PATIENCE_S) == 0)
    see("and its lock is free", eventually(lambda: stage.state("app") == "free"))


def sidecar_ends(stage, agent):
    see("granted", stage.call("POST", "/locks/left")[0] == 201)
    agent.send_signal(signal.SIGTERM)
    see("the sidecar ends after the app", agent.wait(PATIENCE_S) == 0)
    gone = eventually(lambda: stage.masters_with("lock:left") == 0)
    see("what the app left is released, before its lease has run out", gone)


def node_agent(stage):
    agent = stage.agent("daemonset")
    see("the agent of the node is ready", eventually(lambda: stage.is_healthy("--ready")))
    mode = (stage.folder / "api").stat().st_mode & 0o777
    see("its socket lets in the group alone", mode == 0o660)
    see("granted", stage.call("POST", "/locks/node", place="daemonset")[0] == 201)
    agent.send_signal(signal.SIGTERM)
    see("it ends before its callers", agent.wait(PATIENCE_S) == 0)
    see("what they hold is theirs", stage.masters_with("lock:node") >= 3)


def node_service(stage):
    (stage.folder / "token").write_text("a-token-of-the-callers")
    agent = stage.agent("node-service")
    see("the agent behind the Service is ready", eventually(lambda: stage.is_healthy("--ready")))
    with_token = ("-H", "Authorization: Bearer a-token-of-the-callers")
    see("without the token no lock", stage.call("POST", "/locks/service")[0] == 401)
    see("nor a look at one", stage.call("GET", "/locks/service")[0] == 401)
    see("with it a grant", stage.call("POST", "/locks/service", *with_token)[0] == 201)
    agent.send_signal(signal.SIGTERM)
    see("it ends before its callers", agent.wait(PATIENCE_S) == 0)
    see("their hold stays", stage.masters_with("lock:service") >= 3)


def play(stage):
    masters_start(stage)
    first_votes(stage)
    no_quorum_no_start(stage)
    agent = death_ends_nothing(stage)
    samples_run(stage)
    sidecar_ends(stage, agent)
    node_agent(stage)
    node_service(stage)


def main(lockagent):
    with tempfile.TemporaryDirectory(prefix="lockagent-kubernetes-") as folder:
        with contextlib.closing(Stage(lockagent, folder)) as stage:
            try:
                play(stage)
            except AssertionError as unseen:
                print(*stage.logs(), f"FAILED {unseen}", sep="\n")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
