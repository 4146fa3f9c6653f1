"""The stage of the benchmark: five Redis masters, agents, and clients that report in a line.

A Stage is a context: masters, agents and temporary folder are gone when it ends, also if a signal
or the end of this process ends it. Only processes that it started are touched.
"""
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))
from marking import mark_master

MASTERS = 5
PERMITS = 8
PAGE_S = 0.3  # an agent's pages may be 250 ms old (D9)
POLICIES = (
    """
  - match: "fair-*"
    order: fair
  - match: "held-*"
    max_hold: 24h
  - match: "read-mostly-*"
    kind: rw
  - match: "permits-*"
    permits: %d
"""
    % PERMITS
)


class Failure(Exception):
    """Something that was to be measured did nothing, or could not."""


def cpu_s(pid):
    """The CPU time of all threads of a process; 0 when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def rss_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return 1024 * int(line.split()[1])
    raise Failure(f"process {pid} has no memory")


def machine_busy_s():
    """CPU time of all processes (user, nice, system), and the time that a hypervisor took."""
    user, nice, system, *rest = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + rest[-1]) / os.sysconf("SC_CLK_TCK")


def wait_for(what, condition, seconds=10.0):
    """Until `condition()` is true; it may raise Failure by itself."""
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise Failure(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)


def read_words(line):
    """`pairs=3 seconds=2.0` -> {"pairs": 3.0, "seconds": 2.0}."""
    return {name: float(value) for name, value in (word.split("=") for word in line.split())}


def free_port():
    """Below the ports that the kernel gives to clients."""
    for _ in range(100):
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Failure("found no free port")


def http_get(port, path):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        )
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer.decode(errors="replace")


# A program that is started through it ends with this process, however that ends.
ENDS_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]


class Process:
    """One program. If `at_once`, it is started without a detour, to be timed."""

    def __init__(self, log, *arguments, at_once=False, **options):
        self.log = log
        with open(log, "ab") as out:
            self.popen = subprocess.Popen(
                ([] if at_once else ENDS_WITH_US) + [*map(str, arguments)],
                stdin=options.get("stdin", subprocess.DEVNULL),
                stdout=options.get("stdout", out),
                stderr=out,
                text=True,
            )
        self.pid = self.popen.pid

    def lives(self):
        return self.popen.poll() is None

    def send(self, number):
        if self.lives():
            self.popen.send_signal(number)

    def end(self, number=signal.SIGTERM):
        """Continues it if it was stopped, asks, waits, and insists."""
        self.send(number)
        self.send(signal.SIGCONT)
        try:
            self.popen.wait(10)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()

    def said(self):
        return " | ".join(pathlib.Path(self.log).read_text(errors="replace").splitlines()[-3:])


class Master(Process):
    def __init__(self, folder, port, appendonly):
        options = {
            "no": ["--appendonly", "no"],
            "yes": ["--appendonly", "yes", "--appendfsync", "everysec"],
            "always": ["--appendonly", "yes", "--appendfsync", "always"],
        }[appendonly]
        self.folder, self.port, self.appendonly, self.tls_port = folder, port, appendonly, None
        folder.mkdir(exist_ok=True)
        arguments = ["--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
        arguments += ["--maxclients", 15000, "--daemonize", "no", *options]
        super().__init__(folder / "log", "redis-server", *arguments)
        wait_for("a master", self.answers)

    def ask(self, command):
        """One inline command; its reply as text, without the length of a bulk."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall(f"{command}\r\n".encode())
            with connection.makefile("rb") as replies:
                first = replies.readline().decode().rstrip()
                if first.startswith("$"):
                    return replies.read(int(first[1:])).decode(errors="replace")
                return first

    def answers(self):
        if not self.lives():
            raise Failure(f"a master does not start: {self.said()}")
        try:
            return f"process_id:{self.pid}\r" in self.ask("INFO server")
        except OSError:
            return False

    def open_tls(self, certificate, key):
        """Another port of the same server; once."""
        self.tls_port = self.tls_port or free_port()
        answer = self.ask(
            f"CONFIG SET tls-auth-clients no tls-cert-file {certificate} tls-key-file {key}"
            f" tls-port {self.tls_port}"
        )
        if answer != "+OK":
            raise Failure(f"a master does not speak TLS: {answer}")

    def commands(self, names):
        """How often clients have sent one of `names`, since CONFIG RESETSTAT."""
        calls = 0
        for line in self.ask("INFO commandstats").splitlines():
            name, _, figures = line.removeprefix("cmdstat_").partition(":calls=")
            if name.partition("|")[0] in names:
                calls += int(figures.partition(",")[0])
        return calls


class Agent(Process):
    """`authority`: the CA file of the masters' certificates; if set, the agent reaches them over
    TLS.
    """

    def __init__(self, program, folder, masters, limits, at_once, authority=None):
        self.port = free_port()
        self.masters = len(masters)
        self.config = folder / f"agent-{self.port}.yaml"
        scheme, tls = ("rediss", f", tls: {{ca_file: {authority}}}") if authority else ("redis", "")
        ports = [master.tls_port if authority else master.port for master in masters]
        # Named, because over TLS they are the same masters at other addresses (R23).
        urls = ", ".join(f"{scheme}://127.0.0.1:{port}#m{i}" for i, port in enumerate(ports))
        self.config.write_text(
            f"listen: 127.0.0.1:{self.port}\n"
            f"redis: {{groups: {{main: {{masters: [{urls}], durable: true{tls}}}}}}}\n"
            f"policies:{POLICIES}"
            f"limits: {limits}\n"
            "log: {level: warn, format: text}\n"
        )
        self.began = time.monotonic()
        log = folder / f"agent-{self.port}.log"
        super().__init__(log, program, "--config", self.config, at_once=at_once)

    def metric(self, begins):
        """Returns the sum of the samples whose line starts with `begins`."""
        page = http_get(self.port, "/metrics")
        found = [line.split()[-1] for line in page.splitlines() if line.startswith(begins)]
        if not found:
            raise Failure(f"the metrics lack {begins}: {page[:60]!r}")
        return sum(map(float, found))

    def sees_all(self):
        if not self.lives():
            raise Failure(f"the agent ended: {self.said()}")
        try:
            return self.metric("lockagent_master_up{") == self.masters
        except OSError:
            return False

    def first_lock_s(self):
        """From the start of the program to its first 201, asked for without a rest."""
        request = f"POST /locks/first-{self.pid} HTTP/1.1\r\nHost: localhost\r\n"
        request = (request + "Content-Length: 0\r\n\r\n").encode()
        while time.monotonic() < self.began + 10 and self.lives():
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.sendall(request)
                    if connection.recv(65536).startswith(b"HTTP/1.1 201"):
                        return time.monotonic() - self.began
            except ConnectionError:
                pass
            time.sleep(0.0002)
        raise Failure(f"the agent grants nothing after its start: {self.said()}")


class Stage:
    def __init__(self, build, program=None, appendonly="no"):
        self.build = pathlib.Path(build).resolve()
        self.program = pathlib.Path(program or self.build / "lockagent").resolve()
        self.appendonly = appendonly
        self.masters, self.others, self.tools = [], [], 0

    def __enter__(self):
        for tool in "redis-server", "setpriv":
            if not shutil.which(tool):
                raise Failure(f"{tool} is missing")
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, self.leave)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lockagent-bench."))
        return self

    def leave(self, number, _):
        raise SystemExit(128 + number)

    def __exit__(self, *_):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)
        for process in self.others + self.masters:
            process.end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start_masters(self):
        for i in range(MASTERS):
            self.masters.append(Master(self.folder / f"master-{i}", free_port(), self.appendonly))
            mark_master("-p", self.masters[-1].port)

    def agent(self, limits="{}", at_once=False):
        agent = Agent(self.program, self.folder, self.masters, limits, at_once)
        self.others.append(agent)
        return agent

    def ready_agent(self, limits="{}"):
        agent = self.agent(limits)
        wait_for("the agent sees all masters", agent.sees_all)
        return agent

    def ready_agent_over_tls(self):
        """Over the same masters as the others; each has a port for it from then on."""
        certificate, key = self.folder / "master.pem", self.folder / "master.key"
        if not certificate.exists():
            ended = subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
                + ["-subj", "/CN=master", "-addext", "subjectAltName=IP:127.0.0.1"]
                + ["-keyout", key, "-out", certificate],
                capture_output=True,
                text=True,
            )
            if ended.returncode != 0:
                raise Failure(f"openssl: {ended.stderr.strip()}")
        for master in self.masters:
            master.open_tls(certificate, key)
        agent = Agent(self.program, self.folder, self.masters, "{}", False, certificate)
        self.others.append(agent)
        wait_for("the agent sees all masters over TLS", agent.sees_all)
        return agent

    def tool(self, name, *arguments, **options):
        """A program of tests/bench that runs beside the measured one."""
        program = self.build / "tests/bench" / name
        self.tools += 1
        log = self.folder / f"{name}-{self.tools}.log"
        process = Process(log, program, *arguments, **options)
        self.others.append(process)
        return process

    def end(self, process):
        process.end()
        self.others.remove(process)

    def heal(self, agent):
        """Stopped masters go on, killed ones come back and vote, and the agent has seen it."""
        for i, master in enumerate(self.masters):
            if master.lives():
                master.send(signal.SIGCONT)
            else:
                self.masters[i] = Master(master.folder, master.port, self.appendonly)
                mark_master("-p", master.port)
        time.sleep(PAGE_S)  # otherwise the page may be from before the fault
        wait_for("the agent sees all masters again", agent.sees_all, 30)
        guarded = "lockagent_master_guarded_seconds{"
        wait_for("all masters vote again", lambda: agent.metric(guarded) == 0, 30)

    def watch_masters(self):
        return [word for master in self.masters for word in ("--watch", f"masters:{master.pid}")]

    def run(self, *arguments, seconds=60):
        """A client to its end; the words that it reported."""
        program, *rest = map(str, arguments)
        if "/" not in program:
            program = str(self.build / "tests/bench" / program)
        command = [*ENDS_WITH_US, program, *rest]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"no result within {seconds} s") from None
        if ended.returncode != 0:
            raise Failure(
                (ended.stderr.strip() or f"exit code {ended.returncode}").splitlines()[-1]
            )
        words = read_words(ended.stdout)
        if words.get("pairs", 0) + words.get("grants", 0) == 0:
            raise Failure("neither a pair nor a grant in the window: nothing was measured")
        return words

    def own_busy_s(self):
        """CPU time of this process, of all that it has started, and of those that have ended
        meanwhile.
        """
        alive = [process.pid for process in self.masters + self.others if process.lives()]
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(usage.ru_utime + usage.ru_stime for usage in own) + sum(map(cpu_s, alive))
