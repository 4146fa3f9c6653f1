"""A world of the load suite: five real masters, one real agent, its holders, and strangers.

A World is a context: its processes and its folder are gone when it ends, also if a signal or the
end of this process ends it. Only processes that it started are touched.
"""
import http.client
import json
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/bench")]
from marking import mark_master
from stage import (
    Failure,
    Master,
    Process,
    cpu_s,
    free_port,
    http_get,
    machine_busy_s,
    wait_for,
)

MASTERS, WATCHDOGS, LEASES = 5, 50, 10
TRIES = 20


def request(line, *fields, body=""):
    """`line`: method and target."""
    fields = ["Host: localhost", *fields, *([f"Content-Length: {len(body)}"] if body else [])]
    return f"{line} HTTP/1.1\r\n" + "".join(field + "\r\n" for field in fields) + "\r\n" + body


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
            return True
    except OSError:
        return False


def call(connection, method, target, **fields):
    connection.request(method, target, headers=fields)
    answer = connection.getresponse()
    return answer.status, answer.read()


class Lines:
    """The lines that a program prints, read by a thread so that none waits in a pipe."""

    def __init__(self, popen):
        self.popen, self.lines, self.news = popen, [], threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.popen.stdout:
            with self.news:
                self.lines.append(line.strip())
                self.news.notify()
        with self.news:
            self.lines.append(None)
            self.news.notify()

    def next(self, what, seconds):
        with self.news:
            if not self.news.wait_for(lambda: self.lines, seconds):
                raise Failure(f"{what}: not within {seconds} s")
            if self.lines[0] is None:
                raise Failure(f"{what}: the program has ended")
            return self.lines.pop(0)


class World:
    """`tls`: the agent reaches its masters over TLS. `hostile`: the kind of flood that takes the
    place of the last master. `late`: how many masters are behind a proxy that can delay them.
    `agents`: how many use the masters. The holders are at the first one, which is `agent`.
    """

    def __init__(self, build, tls=False, hostile=None, late=0, policies="", agents=1):
        self.build = pathlib.Path(build).resolve()
        self.program = self.build / "lockagent"
        self.tls, self.hostile, self.late = tls or bool(hostile), hostile, late
        self.policies, self.agents = policies, agents
        self.masters, self.others, self.reports, self.tools = [], [], [], 0
        self.used = set()
        self.ports, self.agent, self.holders, self.proxy = [], None, None, None
        self.agent_ports = []

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockagent-load."))
        try:
            self.start_masters()
            self.start_agents()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.others + self.masters:
            process.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def new_port(self):
        """A free port, another one each time: the server for it may not listen yet."""
        while (port := free_port()) in self.used:
            pass
        self.used.add(port)
        return port

    # ---- masters and agent

    def start_masters(self):
        count = MASTERS - bool(self.hostile)
        for i in range(count):
            master = Master(self.folder / f"master-{i}", self.new_port(), "no")
            self.masters.append(master)
            mark_master("-p", master.port)
        if self.tls:
            self.make_certificate()
            for master in self.masters:
                master.open_tls(self.folder / "master.pem", self.folder / "master.key")
        self.ports = [master.tls_port if self.tls else master.port for master in self.masters]
        if self.hostile:
            self.ports.append(self.new_port())
        if self.late:
            self.start_proxy()

    def make_certificate(self):
        ended = subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
            + ["-subj", "/CN=master", "-addext", "subjectAltName=IP:127.0.0.1"]
            + ["-keyout", self.folder / "master.key", "-out", self.folder / "master.pem"],
            capture_output=True,
            text=True,
        )
        if ended.returncode != 0:
            raise Failure(f"openssl: {ended.stderr.strip()}")

    def start_proxy(self):
        program = self.build / "tests/faults/fault-proxy"
        self.proxy = self.start("proxy", program, *self.ports[: self.late], piped=True)
        ports = self.proxy.lines.next("the proxy's ports", 10).split()[1:]
        self.ports[: self.late] = map(int, ports)

    def tell_proxy(self, command):
        self.proxy.popen.stdin.write(command + "\n")
        self.proxy.popen.stdin.flush()
        answer = self.proxy.lines.next("the proxy's answer", 5)
        if answer != "ok":
            raise Failure(f"the proxy says {answer}")

    def start_agents(self):
        for i in reversed(range(self.agents)):
            self.start_agent(f"agent-{i}")
            self.agent_ports.insert(0, self.port)

    def start_agent(self, name):
        self.port, self.admin_port = self.new_port(), self.new_port()
        listen = [f"127.0.0.1:{self.port}"] + [f"'[::1]:{self.port}'"] * has_ipv6()
        scheme, tls = "redis", ""
        if self.tls:
            scheme, tls = "rediss", f", tls: {{ca_file: {self.folder / 'master.pem'}}}"
        urls = ", ".join(f"{scheme}://127.0.0.1:{port}" for port in self.ports)
        config = self.folder / f"{name}.yaml"
        config.write_text(
            f"listen: [{', '.join(listen)}]\n"
            f"admin: {{listen: 127.0.0.1:{self.admin_port}}}\n"
            f"redis: {{groups: {{main: {{masters: [{urls}], durable: true{tls}}}}}}}\n"
            f"{self.policies}log: {{format: text}}\n"
        )
        self.log = self.folder / f"{name}.log"
        self.agent = Process(self.log, self.program, "--config", config)
        self.others.append(self.agent)
        wait_for(f"{name} sees its masters", self.agent_sees_masters)

    def agent_sees_masters(self):
        if not self.agent.lives():
            raise Failure(f"the agent ended: {self.agent.said()}")
        try:
            lines = http_get(self.admin_port, "/metrics").splitlines()
        except OSError:
            return False
        up = [line for line in lines if line.startswith("lockagent_master_up{")]
        return sum(line.endswith(" 1") for line in up) == len(self.masters)

    def metric(self, name):
        """The value of a metric without labels; None: the agent does not answer."""
        try:
            lines = http_get(self.admin_port, "/metrics").splitlines()
        except OSError:
            return None
        return next(
            float(line.split()[1]) for line in lines if line.startswith(f"lockagent_{name} ")
        )

    def agent_log(self):
        return self.log.read_text(errors="replace")

    def peak_mib(self):
        for line in pathlib.Path(f"/proc/{self.agent.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        raise Failure("the agent is gone")

    # ---- programs beside them

    def start(self, name, program, *arguments, piped=False, before=()):
        self.tools += 1
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE} if piped else {}
        log = self.folder / f"{name}-{self.tools}.log"
        process = Process(log, *before, program, *arguments, **pipes)
        self.others.append(process)
        if piped:
            process.lines = Lines(process.popen)
        return process

    def start_holders(self, host="127.0.0.1"):
        program = self.build / "tests/load/load-holders"
        self.holders = self.start(
            "holders", program, host, self.port, WATCHDOGS, LEASES, piped=True
        )
        if self.holders.lines.next("all locks are held", 30) != "ready":
            raise Failure("the holders are not ready")

    def end_phase(self):
        """The figures of the holders since the last phase ended."""
        self.holders.popen.stdin.write("\n")
        self.holders.popen.stdin.flush()
        return json.loads(self.holders.lines.next("the holders' figures", 20))

    def numbers(self):
        """The fencing numbers of the holds that the agent has, by their keys."""
        keys = [f"hold/{i}" for i in range(WATCHDOGS)] + [f"lease/{i}" for i in range(LEASES)]
        found = {}
        for key in keys:
            for attempt in range(TRIES):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
                try:
                    status, body = call(connection, "GET", f"/locks/{key}")
                    if status == 200:
                        found[key] = (json.loads(body).get("hold") or {}).get("fencing_token")
                        break
                except (OSError, http.client.HTTPException):
                    if attempt == TRIES - 1:
                        raise
                finally:
                    connection.close()
                time.sleep(0.1)
        return found

    def take(self, count, target):
        """Takes locks, which are not renewed. `target`: key and parameters; {i} is a number."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        for i in range(count):
            for _ in range(TRIES):
                status, body = call(connection, "POST", "/locks/" + target.format(i=i))
                if status == 201:
                    break
            else:
                raise Failure(f"{target[-60:]} is not granted: {status} {body[:200]}")
        connection.close()

    def own_busy_s(self):
        """CPU time of this process and of all that it has started."""
        alive = [process.pid for process in self.masters + self.others if process.lives()]
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in own) + sum(map(cpu_s, alive))

    def others_busy_s(self):
        return machine_busy_s() - self.own_busy_s()


class Strangers:
    """A context: connections at work until its end; then `report` has their figures."""

    def __init__(self, world, connections, *requests, port=None, host="127.0.0.1", **options):
        self.world, self.connections, self.report = world, connections, None
        words = []
        for name, value in options.items():
            words += [f"--{name}"] if value is True else [f"--{name}", value]
        self.arguments = ["--connections", connections, "--seconds", 600, *words, host]
        self.arguments += [port or world.port, *requests]

    def __enter__(self):
        program = self.world.build / "tests/load/load-strangers"
        nice = ["nice", "-n", "5"]
        self.process = self.world.start(
            "strangers", program, *self.arguments, piped=True, before=nice
        )
        return self

    def __exit__(self, *_):
        self.process.send(signal.SIGTERM)
        try:
            self.report = json.loads(self.process.lines.next("the strangers' report", 20))
        except Failure:
            raise Failure(f"strangers: {self.process.said()}") from None
        self.world.reports.append(self.report)
        self.process.end()


class Flood:
    """A context: the hostile master has the agent's connection when it begins."""

    def __init__(self, world):
        self.world = world

    def __enter__(self):
        program = self.world.build / "tests/load/load-flood"
        folder = self.world.folder
        files = folder / "master.pem", folder / "master.key"
        self.process = self.world.start(
            "flood", program, self.world.hostile, *files, self.world.ports[-1], piped=True
        )
        self.process.lines.next("the agent connects to the hostile master", 30)

    def __exit__(self, *_):
        self.process.popen.stdin.close()
        records = int(self.process.lines.next("the flood's report", 10))
        self.world.reports.append({"records": records})
        self.process.end()
