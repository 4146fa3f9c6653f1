"""The masters of the fault suite's stage."""
import os
import pathlib
import shutil
import subprocess
import sys

from means import ADMIN, MASTERS, Failure, eventually, listen_on

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from marking import mark_master


class Masters:
    """The part of World that starts its masters, asks them, and ends them."""

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
            for _ in range(self.agents)
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
