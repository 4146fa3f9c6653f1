"""The stage of the page's tests: masters and one agent over them, with something to show."""

import contextlib
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/faults")]
from marking import mark_master
from means import LIBC, PR_SET_PDEATHSIG, eventually, free_ports

GROUPS = {"main": 5}  # names, and numbers of masters
PAGE_AGE_S = 0.25


def die_with_us():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Stage:
    """The masters vote from the beginning. All of it ends with close()."""

    def __init__(self, build, groups=None):
        self.folder = tempfile.TemporaryDirectory(prefix="lockagent-page-")
        self.build, self.running, self.open_ends = pathlib.Path(build).resolve(), {}, []
        self.groups = groups or GROUPS
        masters = sum(self.groups.values())
        self.port, self.admin_port, *self.ports = free_ports(2 + masters)
        for master in range(masters):
            self.start_master(master)
        for master in range(masters):
            assert eventually(lambda master=master: self.answers(master)), "redis-server is silent"
            mark_master("-p", self.ports[master])
        self.start_agent()

    def path(self, name):
        return f"{self.folder.name}/{name}"

    def start(self, name, *command):
        with open(self.path(f"{name}.log"), "ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder.name, preexec_fn=die_with_us
            )

    def start_master(self, master, *more):
        self.start(
            f"master{master}",
            *("redis-server", "--port", str(self.ports[master]), "--bind", "127.0.0.1"),
            *("--save", "", "--appendonly", "no", *more),
        )

    def url(self, master):
        """The master as the page names it."""
        return f"redis://127.0.0.1:{self.ports[master]}"

    def stop(self, name):
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def answers(self, master):
        with contextlib.suppress(OSError):
            with socket.create_connection(("127.0.0.1", self.ports[master]), 1) as asked:
                asked.sendall(b"PING\r\n")
                return asked.recv(5) == b"+PONG"
        return False

    def start_agent(self):
        left, groups, first = list(self.ports), [], next(iter(self.groups))
        for name, masters in self.groups.items():
            urls = ", ".join(f"redis://127.0.0.1:{left.pop(0)}" for _ in range(masters))
            groups.append(f"{name}: {{masters: [{urls}]}}")
        with open(self.path("agent.yaml"), "w", encoding="utf-8") as file:
            file.write(
                f"redis: {{groups: {{{', '.join(groups)}}}}}\n"
                f"listen: 127.0.0.1:{self.port}\n"
                f"admin: {{listen: '127.0.0.1:{self.admin_port}'}}\n"
                "policies:\n"
                f"  - {{match: 'report/*', kind: rw, group: {first}}}\n"
                f"  - {{match: 'pool/*', permits: 4, group: {first}}}\n"
                + "".join(f"  - {{match: '{name}/*', group: {name}}}\n" for name in self.groups)
                + f"  - {{match: '*', group: {first}}}\n"
            )
        self.start("agent", f"{self.build}/lockagent", "--config", self.path("agent.yaml"))
        assert eventually(lambda: self.status("/livez") == 200), "the agent does not start"

    def await_ready(self):
        assert eventually(lambda: self.status("/readyz") == 200), "the agent is not ready"

    def send(self, method, path, admin=False, **parameters):
        """A connection that was asked; a caller that keeps it open waits."""
        port = self.admin_port if admin else self.port
        caller = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        words = urllib.parse.urlencode(parameters)
        path = urllib.parse.quote(path)
        caller.request(method, f"{path}?{words}" if words else path)
        return caller

    def ask(self, method, path, **more):
        with contextlib.closing(self.send(method, path, **more)) as caller:
            answer = caller.getresponse()
            return answer.status, answer.read().decode()

    def shown(self, path="/", **more):
        """The text of a page or a list that shows all that was done before: a busy agent may answer
        with one that is 250 ms old (docs/api.md)."""
        time.sleep(PAGE_AGE_S)
        return self.ask("GET", path, **more)[1]

    def status(self, path):
        with contextlib.suppress(OSError, http.client.HTTPException):
            return self.ask("GET", path)[0]
        return 0

    def hold(self, key, **parameters):
        """The answer to a POST that got the lock. A busy machine may miss a node_timeout."""
        answers = []

        def is_granted():
            answers.append(self.ask("POST", f"/locks/{key}", **parameters))
            return answers[-1][0] != 503

        assert eventually(is_granted) and answers[-1][0] == 201, answers[-1]
        return json.loads(answers[-1][1])

    def confirmed(self, key):
        """The number of masters that the list of locks names for the hold."""
        held = json.loads(self.shown("/locks", limit=1000))["held"]
        return next((hold["confirmed"] for hold in held if hold["key"] == key), None)

    def hold_everywhere(self, key, **parameters):
        """Renews until all masters have it: a busy machine may miss the votes of some."""
        token = self.hold(key, **parameters)["token"]

        def is_everywhere():
            self.ask("PUT", f"/locks/{key}", token=token)
            return self.confirmed(key) == sum(self.groups.values())

        assert eventually(is_everywhere), f"{key} is not on all masters"

    def wait_for(self, key, **parameters):
        """A caller that waits until the stage ends."""
        self.open_ends.append(self.send("POST", f"/locks/{key}", wait="60s", **parameters))

    def close(self):
        for caller in self.open_ends:
            caller.close()
        for name in list(self.running):
            self.stop(name)
        self.folder.cleanup()


def furnish(stage):
    """The content of the page: holds of all kinds, waiting callers, a dead and a guarded master."""
    stage.await_ready()
    stage.hold("nightly/invoices", label="billing-7f9c, pod 2")
    stage.hold_everywhere("import/customers", label="crm-import", ttl="1m")
    stage.hold("pool/gpu", label="trainer-1")
    stage.hold("pool/gpu", label="trainer-2")
    for reader in ("dashboard", "export"):
        stage.hold("report/2026-11", label=reader, mode="read")
    stage.hold("leader/scheduler", label="scheduler-0")
    stage.hold("tenant/42/<script>alert(1)</script>", label="<script>alert('label')</script>")
    stage.wait_for("nightly/invoices", label="billing-7f9c, pod 3")
    stage.wait_for("nightly/invoices", label="billing-7f9c, pod 1")
    stage.wait_for("leader/scheduler", label="scheduler-1")
    stage.wait_for("report/2026-11", label="writer", mode="write")
    stage.stop("master4")
    stage.stop("master1")
    time.sleep(0.2)
    stage.start_master(1)  # it may have forgotten: it is guarded
    said = ("is down: ", "answers, and does not vote yet: ")
    assert eventually(lambda: all(each in stage.shown() for each in said)), "no master is guarded"
