"""The stage of the fault suite: five redis-servers, the proxy, three agents that reach the masters
through it, and the callers.

Everything lives in a folder of its own and dies with this process (PR_SET_PDEATHSIG). A process
that was started is ended by its pid."""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from marking import mark_master

MASTERS, AGENTS = 5, 3
TTL_MS = 1000
# a missing marker is noticed, then all forgotten leases must run out (D5.3)
GUARD_MS = 2000 + TTL_MS + 1000
# and so much later they vote by a guess, if too few others can tell them their numbers
GUESS_MS = 10000
# the most that the shortest ttl allows, for a machine that does other things too
NODE_TIMEOUT_MS = 250
# ttl, a second of silence until a reconnect, half a second of back-off, and as much again
RECOVERY_MS = TTL_MS + 3000
CONTENDERS, SOLOISTS = 24, 6
PATIENCE_S = 15
ALIVE_S = 2  # for an answer that asks no master
# more than an agent had before: bounded replies, and the memory of more callers in more trouble
MEMORY_KIB = 24 << 10

# the kind of each key pattern, if not all are mutexes; the callers know them by these names
KINDS = {"rw/*": "kind: rw", "two/*": "permits: 2", "eight/*": "permits: 8"}
ADMIN = ["admin", "on", "nopass", "~*", "&*", "+@all"]

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def boottime_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def free_ports(count):
    """Different ones, outside the range that the kernel hands out, so that they stay free while
    their server is down, and none that browsers' fetch() refuses (10080)."""
    with contextlib.ExitStack() as probes:
        ports = []
        while len(ports) < count:
            port, probe = random.randrange(10100, 12000), probes.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def eventually(condition, seconds=PATIENCE_S):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def listen_on(port, over_tls):
    return ["--port", "0", "--tls-port", str(port)] if over_tls else ["--port", str(port)]


class Net:
    """A network namespace with one wire to it, for this process alone."""

    def __init__(self):
        number = os.getpid()
        self.name, self.wire, self.far = f"lockagent{number}", f"la{number}", f"lb{number}"
        self.subnet = f"10.{200 + number // 250 % 50}.{number % 250}"
        made = self.ip("netns", "add", self.name)
        if made.returncode != 0:
            raise Skipped(f"ip netns add: {made.stderr.strip()}")
        for command in (
            f"link add {self.wire} type veth peer name {self.far}",
            f"link set {self.far} netns {self.name}",
            f"addr add {self.subnet}.1/30 dev {self.wire}",
            f"link set {self.wire} up",
            f"-n {self.name} addr add {self.subnet}.2/30 dev {self.far}",
            f"-n {self.name} link set {self.far} up",
        ):
            done = self.ip(*command.split())
            if done.returncode != 0:
                self.close()
                raise Skipped(f"ip {command}: {done.stderr.strip()}")

    @staticmethod
    def ip(*words):
        return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)

    def address(self, master):
        return f"{self.subnet}.2:{7001 + master}"

    def listen(self, master, over_tls):
        return [
            "ip",
            "netns",
            "exec",
            self.name,
            "redis-server",
            *listen_on(7001 + master, over_tls),
            "--bind",
            f"{self.subnet}.2",
            "--protected-mode",
            "no",
        ]

    def cut(self):
        self.ip("link", "set", self.wire, "down")

    def join(self):
        self.ip("link", "set", self.wire, "up")

    def cut_way_back(self):
        """Sent bytes arrive, and nothing comes back."""
        self.ip("-n", self.name, "route", "add", "blackhole", f"{self.subnet}.1/32")

    def join_way_back(self):
        self.ip("-n", self.name, "route", "del", "blackhole", f"{self.subnet}.1/32")

    def close(self):
        self.ip("netns", "del", self.name)
        self.ip("link", "del", self.wire)


class Failure(Exception):
    """A property besides the checker's must hold, and did not."""


class Skipped(Exception):
    """This machine does not allow the fault; neither passed nor failed."""


class World:
    """`durable`: the masters keep their data on disk. `clocks`: their wall clocks can be set.
    `behind_net`: how many of them are in a network namespace of their own, which the agents reach
    without the proxy. `group`: more YAML for the agents' group, `policy`: for their policy,
    `prefixes`: of each agent's keys. `user`: the user of the agents, with the password `secret`.
    `journal`: the agents keep one. `deadly`: they can be killed before an answer. `stray_permille`:
    of the contenders' renewals and releases go to another agent. `contenders`: for the shared keys.
    `replicas`: how many of the next masters are replicas of the first one, the only one that the
    agents know; two at the most. `over_tls`: the masters are reached over TLS alone, with client
    certificates. `kinds`: these are of several kinds, as KINDS has them; but the agents
    `of_another_kind` take those that are read and written for mutexes. `java`: a service in Java
    takes the contested keys as well."""

    def __init__(
        self,
        build,
        seed,
        durable=False,
        clocks=False,
        vanish_permille=30,
        limits=None,
        group="durable: true",
        prefixes=None,
        behind_net=0,
        user=None,
        policy="",
        journal=False,
        deadly=False,
        stray_permille=0,
        contenders=CONTENDERS,
        over_tls=False,
        kinds=False,
        of_another_kind=(),
        replicas=0,
        java=False,
    ):
        self.build, self.random, self.durable, self.clocks = (
            build,
            random.Random(seed),
            durable,
            clocks,
        )
        self.group, self.prefixes, self.behind_net, self.net = (
            group,
            prefixes or ["lock:"] * AGENTS,
            behind_net,
            None,
        )
        self.user, self.helpers, self.keepers = user, [], {}
        self.policy, self.journal, self.deadly, self.stray_permille, self.bound = (
            policy,
            journal,
            deadly,
            stray_permille,
            0,
        )
        self.contenders, self.kinds, self.of_another_kind = contenders, kinds, of_another_kind
        self.replicas, self.java = replicas, java
        self.over_tls = over_tls or World.all_over_tls
        ports = free_ports(MASTERS + AGENTS)
        self.tls_ports, self.ports = ports[:MASTERS], ports[MASTERS:]
        self.folder = tempfile.mkdtemp(prefix="lockagent-faults-")
        self.processes, self.marks = {}, []
        self.history = self.path("history")
        try:
            self.open(seed, vanish_permille, limits or {})
        except BaseException:
            self.close()
            raise

    memory_kib = MEMORY_KIB
    all_over_tls = False
    retry = "{max: 100ms}"  # of the agents' policy

    def open(self, seed, vanish_permille, limits):
        if self.behind_net:
            self.net = Net()
        self.launch_masters()
        if self.replicas:
            self.launch_replicas()
        self.launch_agents(limits)
        self.launch_callers(seed, vanish_permille)
        if self.java:
            self.launch_java()

    def launch_masters(self):
        """With the proxy in front of them."""
        if self.over_tls:
            self.make_certificates()
        for master in range(MASTERS):
            os.mkdir(self.path(f"master{master}"))
            self.set_clock(master, 0)
            self.launch_master(master)
        ends = [
            str(self.tls_ports[master]) if self.over_tls else self.socket(master)
            for _ in range(AGENTS)
            for master in range(MASTERS)
        ]
        self.start(
            "proxy",
            [f"{self.build}/tests/faults/fault-proxy", *ends],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.link_ports = self.processes["proxy"].stdout.readline().split()[1:]
        for master in range(MASTERS):
            self.await_master(master)
            mark_master(*self.client(master)[2:])

    def launch_replicas(self):
        """They follow any master that serves at the first master's address."""
        self.ask_master(0, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
        for replica in range(1, 1 + self.replicas):
            self.ask_master(replica, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
            self.ask_master(replica, "REPLICAOF", "127.0.0.1", self.link_ports[-MASTERS])
        for replica in range(1, 1 + self.replicas):
            if not eventually(lambda replica=replica: self.follows(replica)):
                raise Failure(f"replica {replica} does not follow the master")

    def follows(self, replica):
        return "master_link_status:up" in self.ask_master(replica, "INFO", "replication")

    def promote(self, replica):
        """It serves at the address of the first master, which is killed."""
        self.kill_masters([0])
        os.rename(self.socket(replica), self.socket(0))
        self.processes["master0"] = self.processes.pop(f"master{replica}")
        if self.ask_master(0, "REPLICAOF", "NO", "ONE") != ["OK"]:
            raise Failure(f"replica {replica} can not be promoted")
        self.weather(self.links(masters=[0]), refuse=0)

    def launch_agents(self, limits):
        for agent in range(AGENTS):
            ports = self.link_ports[agent * MASTERS : (agent + 1) * MASTERS]
            self.configure(
                agent,
                [
                    self.net.address(master) if master < self.behind_net else f"127.0.0.1:{port}"
                    for master, port in enumerate(ports[:1] if self.replicas else ports)
                ],
                limits,
            )
            self.launch_agent(agent)
        for agent in range(AGENTS):
            self.await_agent(agent)

    def launch_callers(self, seed, vanish_permille):
        self.start(
            "callers",
            [
                f"{self.build}/tests/faults/fault-callers",
                str(seed),
                str(TTL_MS),
                str(self.contenders),
                str(SOLOISTS),
                str(vanish_permille),
                self.history,
                f"stray={self.stray_permille}",
                *["kinds"] * self.kinds,
                *map(str, self.ports),
            ],
            stdin=subprocess.PIPE,
        )

    def path(self, name):
        return os.path.join(self.folder, name)

    # ---- processes

    def start(self, name, arguments, more_environment=(), **streams):
        def with_us():
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(126)

        parent = os.getpid()
        with open(self.path(f"{name}.log"), "ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, **streams}
            # Variables that configure this suite must not configure the agents.
            environment = {
                key: value for key, value in os.environ.items() if not key.startswith("LOCKAGENT_")
            }
            environment.update(more_environment)
            # A session of its own: Ctrl-C is for this process, which then ends the others.
            self.processes[name] = subprocess.Popen(
                arguments,
                start_new_session=True,
                preexec_fn=with_us,
                env=environment,
                text=True,
                **streams,
            )

    def signal(self, name, number):
        self.processes[name].send_signal(number)

    def kill(self, name):
        process = self.processes.pop(name)
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream:
                stream.close()

    def close(self):
        for helper in self.helpers:
            helper.kill()
            helper.wait()
        for keeper in self.keepers.values():
            keeper.close()
        for name in list(self.processes):
            self.kill(name)
        if self.net:
            self.net.close()
        if "LOCKAGENT_KEEP" in os.environ:
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def log(self, name):
        with open(self.path(f"{name}.log"), encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-20:])

    # ---- masters

    def socket(self, master):
        return self.path(f"master{master}.sock")

    def make_certificates(self):
        """For masters and agents alike, and for one name, by which all masters are known."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
        ca, ca_key = self.path("ca.pem"), self.path("ca.key")
        for command in (
            ["-keyout", ca_key, "-out", ca, "-subj", "/CN=authority"],
            [
                *["-CA", ca, "-CAkey", ca_key],
                *["-keyout", self.path("all.key"), "-out", self.path("all.pem")],
                *["-subj", "/CN=all", "-addext", "subjectAltName=DNS:masters.example"],
            ],
        ):
            made = subprocess.run(
                ["openssl", "req", "-x509", *key, *command],
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode != 0:
                raise Failure(f"openssl req: {made.stderr}")

    def certificates(self):
        return [
            *["--tls-ca-cert-file", self.path("ca.pem")],
            *["--tls-cert-file", self.path("all.pem"), "--tls-key-file", self.path("all.key")],
        ]

    def launch_master(self, master):
        port = self.tls_ports[master] if self.over_tls else 0
        listen = (
            self.net.listen(master, self.over_tls)
            if master < self.behind_net
            else ["redis-server", *listen_on(port, self.over_tls)]
        )
        if self.over_tls:
            listen += self.certificates()
        self.start(
            f"master{master}",
            [
                *listen,
                "--unixsocket",
                self.socket(master),
                "--dir",
                self.path(f"master{master}"),
                "--save",
                "",
                "--appendonly",
                "yes" if self.durable else "no",
                "--appendfsync",
                "always",
                "--maxmemory-policy",
                "noeviction",
                "--enable-debug-command",
                "yes",
                "--busy-reply-threshold",
                "50",
                "--loading-process-events-interval-bytes",
                "1024",
                "--user",
                *ADMIN,
                *self.login(),
            ],
            more_environment=self.clock(f"clock{master}") if self.clocks else {},
        )

    def clock(self, name):
        """The environment of a process whose wall clock is set by that file."""
        return {
            "LD_PRELOAD": f"{self.build}/tests/faults/fault-clock.so",
            "FAULT_CLOCK": self.path(name),
        }

    def set_clock(self, master, offset_ms):
        with open(
            self.path(f"clock{master}"),
            "r+b" if os.path.exists(self.path(f"clock{master}")) else "wb",
        ) as clock:
            clock.write(offset_ms.to_bytes(8, "little", signed=True))

    def client(self, master):
        """A command line that may do all, although the agents may not."""
        return [
            "redis-cli",
            "-e",
            "-s",
            self.socket(master),
            "--user",
            ADMIN[0],
            "--pass",
            "any",
            "--no-auth-warning",
        ]

    def ask_master(self, master, *command):
        done = subprocess.run(
            [*self.client(master), *command], capture_output=True, text=True, check=False
        )
        return done.stdout.split("\n")[:-1] if done.returncode == 0 else None

    def await_master(self, master):
        if not eventually(lambda: self.ask_master(master, "PING") == ["PONG"]):
            raise Failure(f"master {master} does not start:\n{self.log(f'master{master}')}")

    def masters(self, count):
        return self.random.sample(range(MASTERS), count)

    def kill_masters(self, masters):
        for master in masters:
            self.kill(f"master{master}")
            self.weather(self.links(masters=[master]), refuse=1)

    def login(self):
        return ["--user", self.user, "on", ">secret", "~*", "&*", "+@all"] if self.user else []

    def keep_state(self, masters):
        for master in masters:
            shutil.copytree(self.path(f"master{master}"), self.path(f"older{master}"))

    def restart_masters(self, masters, empty=False, older=False):
        for master in masters:
            if empty or older:
                shutil.rmtree(self.path(f"master{master}"))
            if empty:
                os.mkdir(self.path(f"master{master}"))
            if older:
                os.rename(self.path(f"older{master}"), self.path(f"master{master}"))
            self.launch_master(master)
        for master in masters:
            self.await_master(master)
            self.weather(self.links(masters=[master]), refuse=0)

    def masters_with(self, key):
        return [
            master
            for master in range(MASTERS)
            if self.ask_master(master, "EXISTS", f"lock:{key}") == ["1"]
        ]

    def await_keys(self, master, keys, patience_s):
        """That master locks them, again."""
        missing = [
            key
            for key in keys
            if not eventually(lambda key=key: master in self.masters_with(key), patience_s)
        ]
        if missing:
            raise Failure(f"master {master} does not get back {', '.join(missing)}")

    def lock_keys(self):
        """Also those of slots."""
        every = "local found = {} for _, each in ipairs(ARGV) do "
        every += "for _, key in ipairs(redis.call('KEYS', each)) do table.insert(found, key) end "
        every += "end return found"
        return {
            master: self.ask_master(master, "EVAL", every, "0", "lock:*", "lockagent:slot:*")
            for master in range(1 if self.replicas else MASTERS)
        }

    # ---- agents

    def credentials(self):
        return f"{self.user}:secret@" if self.user else ""

    def configure(self, agent, masters, limits):
        """max_ttl is as small as may be, so that a guard is over soon."""
        scheme, tls = "redis", ""
        if self.over_tls:
            scheme, tls = "rediss", (
                f", tls: {{ca_file: {self.path('ca.pem')}, cert_file: {self.path('all.pem')}, "
                f"key_file: {self.path('all.key')}, server_name: masters.example}}"
            )
        urls = [f"{scheme}://{self.credentials()}{master}" for master in masters]
        with open(self.path(f"agent{agent}.yaml"), "w", encoding="utf-8") as config:
            config.write(
                f"listen: 127.0.0.1:{self.ports[agent]}\n"
                f"redis: {{groups: {{main: {{masters: [{', '.join(urls)}], "
                f"node_timeout: {NODE_TIMEOUT_MS}ms, {self.group}{tls}}}}}}}\n"
                f"policies: [{', '.join(self.policies(agent))}]\n{self.journal_of(agent)}"
                f"limits: {json.dumps({'max_ttl': f'{TTL_MS}ms', **limits})}\n"
                "log: {level: info, format: json}\nshutdown: {grace: 100ms}\n"
            )

    def policies(self, agent):
        def policy(match, kind):
            return (
                f"{{match: '{match}', prefix: '{self.prefixes[agent]}', ttl: {TTL_MS}ms, "
                f"retry: {self.retry}{kind and ', ' + kind}}}"
            )

        kinds = dict(KINDS) if self.kinds else {}
        if agent in self.of_another_kind:
            del kinds["rw/*"]
        return [policy(*each) for each in kinds.items()] + [policy("*", self.policy)]

    def journal_of(self, agent):
        return f"journal: {{file: {self.path(f'journal{agent}')}}}\n" if self.journal else ""

    def launch_agent(self, agent):
        self.start(
            f"agent{agent}",
            [f"{self.build}/lockagent", "serve", "--config", self.path(f"agent{agent}.yaml")],
            more_environment=self.environment_of(agent),
        )

    def environment_of(self, agent):
        if not self.deadly:
            return {}
        return {
            "LD_PRELOAD": f"{self.build}/tests/faults/fault-deadly.so",
            "FAULT_DEADLY": self.path(f"deadly{agent}"),
        }

    def kill_before_granting(self, agent, key):
        """It is killed when it has granted `key` and is about to say so; returns when it was. No
        process has the token then."""
        with open(self.path(f"deadly{agent}.new"), "w", encoding="ascii") as deadly:
            deadly.write(f"/locks/{key}\r\n")
        os.rename(deadly.name, self.path(f"deadly{agent}"))
        self.ask(agent, "POST", f"/locks/{key}?ttl={TTL_MS}ms&renew=agent&max_hold=60s")
        process = self.processes[f"agent{agent}"]
        if (
            not eventually(lambda: process.poll() is not None, 2)
            or process.returncode != -signal.SIGKILL
        ):
            raise Failure(f"agent {agent} was not killed before it answered: {process.returncode}")
        self.kill(f"agent{agent}")

    def ask(self, agent, method, path, token=None):
        """Returns status and body; None and nothing if no answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[agent], timeout=5)
        with contextlib.closing(connection), contextlib.suppress(
            OSError, http.client.HTTPException
        ):
            connection.request(method, path, headers={"Lock-Token": token} if token else {})
            response = connection.getresponse()
            body = response.read()
            return response.status, json.loads(body) if body.startswith(b"{") else body.decode()
        return None, {}

    def hold(self, agent, key, ttl_ms):
        """A watchdog's lock that is kept until it is released; no caller knows of its key."""
        status, answer = self.ask(
            agent, "POST", f"/locks/{key}?ttl={ttl_ms}ms&renew=agent&max_hold=60s&wait=3s"
        )
        if status != 201:
            raise Failure(f"agent {agent} does not grant {key}: {status} {answer}")
        return answer["token"]

    def expect_held(self, agent, key, token):
        status, answer = self.ask(agent, "PUT", f"/locks/{key}", token)
        if status != 200 or "continuous" in answer:
            raise Failure(f"agent {agent} does not hold {key} any more: {status} {answer}")

    def let_go(self, agent, key, token):
        self.expect_held(agent, key, token)
        status, answer = self.ask(agent, "DELETE", f"/locks/{key}", token)
        if status != 204:
            raise Failure(f"agent {agent} does not release {key}: {status} {answer}")

    def metric(self, agent, name):
        _, text = self.ask(agent, "GET", "/metrics")
        return next(
            (
                float(line.split()[-1])
                for line in str(text).split("\n")
                if line.startswith(name + " ")
            ),
            0,
        )

    def status(self, agent, path, patience_s=5):
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[agent], timeout=patience_s)
        with contextlib.closing(connection), contextlib.suppress(
            OSError, http.client.HTTPException
        ):
            connection.request("GET", path)
            return connection.getresponse().status
        return None

    def is_ready(self, agent):
        return self.status(agent, "/readyz") == 200

    def await_agent(self, agent):
        if not eventually(lambda: self.is_ready(agent)):
            raise Failure(f"agent {agent} is not ready:\n{self.log(f'agent{agent}')}")

    def expect_alive(self):
        """Each agent is the process that was started, and says that it lives."""
        for agent in range(AGENTS):
            ended = self.processes[f"agent{agent}"].poll()
            if ended is not None:
                raise Failure(f"agent {agent} ended with {ended}:\n{self.log(f'agent{agent}')}")
            if self.status(agent, "/livez", ALIVE_S) != 200:
                raise Failure(f"agent {agent} does not say that it lives")

    def peaks_kib(self):
        """The most memory that each agent ever had resident."""
        peaks = []
        for agent in range(AGENTS):
            with open(
                f"/proc/{self.processes[f'agent{agent}'].pid}/status", encoding="ascii"
            ) as status:
                peaks += [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
        return peaks

    def expect_bounded(self, before_kib):
        for agent, (before, after) in enumerate(zip(before_kib, self.peaks_kib(), strict=True)):
            if after - before > self.memory_kib:
                raise Failure(
                    f"agent {agent} grew from {before} to {after} KiB, "
                    f"which is more than {self.memory_kib} KiB"
                )

    def agent(self):
        return self.random.randrange(AGENTS)

    def pause(self, names, seconds):
        for name in names:
            self.signal(name, signal.SIGSTOP)
        time.sleep(seconds)
        for name in names:
            self.signal(name, signal.SIGCONT)

    def connect(self, agent):
        connection = socket.create_connection(("127.0.0.1", self.ports[agent]), timeout=PATIENCE_S)
        return connection

    # ---- callers that hold by a connection

    def launch_bound(self, ttl_ms):
        """Returns when one of them holds a lock."""
        self.bound += 1
        history = self.history + ".bound"
        self.start(
            "bound",
            [
                sys.executable,
                os.path.join(os.path.dirname(__file__), "bound.py"),
                str(self.random.randrange(1 << 30)),
                str(self.bound * 1000),
                str(ttl_ms),
                history,
                *map(str, self.ports),
            ],
        )
        if not eventually(
            lambda: os.path.exists(history)
            and any(
                event["caller"] >= self.bound * 1000 and event["outcome"] == "ok"
                for event in self.events(history)
            )
        ):
            raise Failure(f"nothing is granted to callers that are bound:\n{self.log('bound')}")

    def kill_bound(self):
        """Their end is the release of all that they hold. Returns those locks, as (key, random part
        of the token)."""
        self.mark("killed", first=self.bound * 1000, last=self.bound * 1000 + 999)
        self.kill("bound")
        held = {}
        for event in self.events(self.history + ".bound"):
            if event["op"] == "acquire" and event["outcome"] == "ok":
                held[event["hold"]] = (event["key"], event["hold"][:40])
            elif event["op"] != "look" or event["outcome"] != "ok":
                held.pop(event["hold"], None)
        return set(held.values())

    def still_held(self, holds):
        """Those of them that any master still has."""
        return {
            (key, hold)
            for key, hold in holds
            for master in range(MASTERS)
            if (self.ask_master(master, "GET", f"lock:{key}") or [""])[0].startswith(hold)
        }

    # ---- Java services that share the keys with them

    def launch_java(self):
        self.start(
            "java",
            [
                sys.executable,
                os.path.join(os.path.dirname(__file__), "java.py"),
                str(self.random.randrange(1 << 30)),
                str(TTL_MS),
                self.history + ".java",
                *map(self.socket, range(MASTERS)),
            ],
            stdout=subprocess.PIPE,
        )
        if self.processes["java"].stdout.readline() != "ready\n":  # SIGTERM would just end it
            raise Failure(f"the Java service did not start:\n{self.log('java')}")

    def stop_java(self):
        """Makes it give back its locks."""
        java = self.processes["java"]
        java.terminate()
        try:
            ended = java.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            ended = None
        if ended != 0:
            raise Failure(f"the Java service ended with {ended}:\n{self.log('java')}")
        self.kill("java")

    # ---- the network

    @staticmethod
    def links(agents=range(AGENTS), masters=range(MASTERS)):
        return ",".join(str(agent * MASTERS + master) for agent in agents for master in masters)

    def weather(self, links, **settings):
        """`up_hole=1` is the proxy's up.hole=1."""
        words = [
            f"{name.replace('up_', 'up.').replace('down_', 'down.')}={value}"
            for name, value in settings.items()
        ]
        self.ask_proxy(f"{links} {' '.join(words)}")

    def ask_proxy(self, command):
        proxy = self.processes["proxy"]
        proxy.stdin.write(f"{command}\n")
        proxy.stdin.flush()
        answer = proxy.stdout.readline().strip()
        if not answer.startswith("ok"):
            raise Failure(f"proxy: {answer}")
        return answer

    def clear_weather(self):
        self.weather(
            "all",
            delay_us=0,
            jitter_us=0,
            loss_permille=0,
            rate_bytes=0,
            slice_us=0,
            reset_permille=0,
            hole=0,
            refuse=0,
            lie="never",
        )

    # ---- the history

    @staticmethod
    def events(path):
        with open(path, encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.endswith("}\n")]

    def whole_history(self):
        told = [self.history, self.history + ".bound", self.history + ".java"]
        return [
            event for path in told if os.path.exists(path) for event in self.events(path)
        ] + self.marks

    def mark(self, op, **more):
        self.marks.append({"op": op, "t0": boottime_us(), **more})

    def grants_since(self, mark_us):
        """The agents that have granted since then."""
        agents = set()
        with open(self.history, encoding="utf-8") as lines:
            for line in lines:
                if '"op":"acquire"' in line and '"outcome":"ok"' in line and line.endswith("}\n"):
                    event = json.loads(line)
                    if event["t1"] >= mark_us:
                        agents.add(event["agent"])
        return agents

    def await_grants(self, within_ms):
        """Every agent grants again, or the checker will say so."""
        healed_us = self.marks[-1]["t0"]
        eventually(lambda: len(self.grants_since(healed_us)) == AGENTS, within_ms / 1000)

    def stop_callers(self):
        callers = self.processes["callers"]
        callers.stdin.write("stop\n")
        callers.stdin.flush()
        try:
            ended = callers.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            ended = None
        if ended != 0:
            raise Failure(f"the callers ended with {ended}:\n{self.log('callers')}")
        self.kill("callers")
        if self.java:
            self.stop_java()

    def look_for_orphans(self):
        """Checks that no key is left a ttl and a second after the last caller went."""
        eventually(lambda: not any(self.lock_keys().values()), TTL_MS / 1000 + 1)
        for master, found in self.lock_keys().items():
            self.mark(
                "keys",
                master=master,
                keys=["not there"] if found is None else [key for key in found if key],
            )

    def stop_agents(self):
        for agent in range(AGENTS):
            process = self.processes[f"agent{agent}"]
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            if process.returncode != 0:
                raise Failure(
                    f"agent {agent} ended with {process.returncode}:\n{self.log(f'agent{agent}')}"
                )
