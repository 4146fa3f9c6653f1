"""The stage of the fault suite: five redis-servers, the proxy, three agents (in one row more) that
reach the masters through it, and the callers.

Everything lives in a folder of its own and dies with this process (PR_SET_PDEATHSIG). A process
that was started is ended by its pid."""
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from masters import Masters
from means import (
    AGENTS,
    ALIVE_S,
    CONTENDERS,
    KINDS,
    LIBC,
    MASTERS,
    MEMORY_KIB,
    NODE_TIMEOUT_MS,
    PATIENCE_S,
    PR_SET_PDEATHSIG,
    SOLOISTS,
    TTL_MS,
    Failure,
    Net,
    boottime_us,
    eventually,
    free_ports,
)


class World(Masters):
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
    takes the contested keys as well. `agents`: how many there are."""

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
        agents=AGENTS,
    ):
        self.build, self.random, self.durable, self.clocks = (
            build,
            random.Random(seed),
            durable,
            clocks,
        )
        self.agents = agents
        self.group, self.prefixes, self.behind_net, self.net = (
            group,
            prefixes or ["lock:"] * agents,
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
        ports = free_ports(MASTERS + agents)
        self.tls_ports, self.ports = ports[:MASTERS], ports[MASTERS:]
        self.folder = tempfile.mkdtemp(prefix="lockagent-faults-")
        self.processes, self.marks, self.marked_at = {}, [], 0
        self.history = self.path("history")
        try:
            self.open(seed, vanish_permille, limits or {})
        except BaseException:
            self.close()
            raise

    memory_kib = MEMORY_KIB
    all_over_tls = False
    longest_ttl_ms, soloists = TTL_MS, SOLOISTS
    retry, grace = "{max: 100ms}", "100ms"  # of the agents' policy, and of their end

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

    def launch_agents(self, limits):
        for agent in range(self.agents):
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
        for agent in range(self.agents):
            self.await_agent(agent)

    def launch_callers(self, seed, vanish_permille):
        self.start(
            "callers",
            [
                f"{self.build}/tests/faults/fault-callers",
                str(seed),
                str(TTL_MS),
                str(self.contenders),
                str(self.soloists),
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
        # Each agent has proxies of its own. The fragment is the name that all agents share (R23).
        urls = [
            f"{scheme}://{self.credentials()}{master}#m{each}"
            for each, master in zip(self.masters_of(agent), masters)
        ]
        with open(self.path(f"agent{agent}.yaml"), "w", encoding="utf-8") as config:
            config.write(
                f"listen: 127.0.0.1:{self.ports[agent]}\n"
                f"redis: {{groups: {{main: {{masters: [{', '.join(urls)}], "
                f"node_timeout: {NODE_TIMEOUT_MS}ms, {self.group}{tls}}}}}}}\n"
                f"policies: [{', '.join(self.policies(agent))}]\n{self.journal_of(agent)}"
                f"limits: {json.dumps({'max_ttl': f'{TTL_MS}ms', **limits})}\n"
                f"log: {{level: info, format: json}}\nshutdown: {{grace: {self.grace}}}\n"
            )

    def masters_of(self, _agent):
        return range(MASTERS)

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
            [self.program_of(agent), "serve", "--config", self.path(f"agent{agent}.yaml")],
            more_environment=self.environment_of(agent),
        )

    def program_of(self, _agent):
        return f"{self.build}/lockagent"

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

    def ask(self, agent, method, path, token=None, patience_s=5):
        """Returns status and body; None and nothing if no answer came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[agent], timeout=patience_s)
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
        """A machine that stops for a moment makes all masters late for one round."""
        for _ in range(5):
            status, answer = self.ask(agent, "PUT", f"/locks/{key}", token)
            if status != 503:
                break
        if status != 200 or "continuous" in answer:
            raise Failure(f"agent {agent} does not hold {key} any more: {status} {answer}")

    def let_go(self, agent, key, token):
        self.expect_held(agent, key, token)
        status, answer = self.ask(agent, "DELETE", f"/locks/{key}", token)
        if status not in (202, 204):
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
        for agent in range(self.agents):
            ended = self.processes[f"agent{agent}"].poll()
            if ended is not None:
                raise Failure(f"agent {agent} ended with {ended}:\n{self.log(f'agent{agent}')}")
            if self.status(agent, "/livez", ALIVE_S) != 200:
                raise Failure(f"agent {agent} does not say that it lives")

    def peaks_kib(self):
        """The most memory that each agent ever had resident."""
        peaks = []
        for agent in range(self.agents):
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
        return self.random.randrange(self.agents)

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

    def links(self, agents=None, masters=range(MASTERS)):
        agents = range(self.agents) if agents is None else agents
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
        self.marked_at = os.path.getsize(self.history) if os.path.exists(self.history) else 0
        self.marks.append({"op": op, "t0": boottime_us(), **more})

    def grants_since(self, mark_us, since="t1"):
        """The agents that have granted since then, which was the last mark. `since`: t0 if the
        request came since then as well."""
        agents = set()
        with open(self.history, encoding="utf-8") as lines:
            lines.seek(self.marked_at)
            for line in lines:
                if '"op":"acquire"' in line and '"outcome":"ok"' in line and line.endswith("}\n"):
                    event = json.loads(line)
                    if event[since] >= mark_us:
                        agents.add(event["agent"])
        return agents

    def await_grants(self, within_ms):
        """Every agent grants again, or the checker will say so."""
        healed_us = self.marks[-1]["t0"]
        eventually(lambda: len(self.grants_since(healed_us)) == self.agents, within_ms / 1000)

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
        """Checks that no key is left when its last renewal is the longest ttl and a second ago. An
        agent learns of a release at another agent by a renewal, a third of the ttl later (C6)."""
        longest_s = self.longest_ttl_ms / 1000
        eventually(lambda: not any(self.lock_keys().values()), longest_s / 3 + longest_s + 1)
        for master, found in self.lock_keys().items():
            self.mark(
                "keys",
                master=master,
                keys=["not there"] if found is None else [key for key in found if key],
            )

    def stop_agents(self):
        for agent in range(self.agents):
            process = self.processes[f"agent{agent}"]
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
            if process.returncode != 0:
                raise Failure(
                    f"agent {agent} ended with {process.returncode}:\n{self.log(f'agent{agent}')}"
                )
