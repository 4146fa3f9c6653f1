"""A running agent over five masters, and one bash that runs the commands of the documents."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = "--- end of output ---"
# The masters write every change to a file. A busy disk would make them late.
IN_MEMORY = "/dev/shm"
# How long each master may take. The default of 50 ms is short for a busy machine.
PATIENT = {"LOCKAGENT_REDIS_GROUPS_MAIN_NODE_TIMEOUT": "250ms"}
# An agent in the background of a session, and lockagent run, say so on a busy machine.
LATE = re.compile(
    r'^(\{.*"msg":"(?:process was stopped or late|renewal failed)".*\}|'
    r"lockagent run: \S+: too few masters confirmed the release: the lock ends with its ttl)\n",
    re.M,
)
MASTERS = 5


def free_ports(count):
    """The first of `count` free TCP ports in a row."""
    # The tests in C take ports from 12000 to 22000.
    for base in range(22100 + os.getpid() % 7900, 60000, count + 1):
        sockets = []
        try:
            for port in range(base, base + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
        finally:
            for each in sockets:
                each.close()
    raise SystemExit("no free ports")


class Session:
    """The documents say 8080 and 7001 to 7005. The session has ports of its own, and hides them."""

    def __init__(self, lockagent):
        self.base = free_ports(1 + MASTERS)
        self.output = tempfile.TemporaryFile()
        self.agent = subprocess.Popen(
            [ROOT / "deploy/local/run.sh", lockagent],
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
            env=dict(
                os.environ,
                LISTEN=f"127.0.0.1:{self.base}",
                REDIS_PORT=str(self.base + 1),
                **({"TMPDIR": IN_MEMORY} if os.access(IN_MEMORY, os.W_OK) else {}),
            ),
        )
        # The commands write here; they read the samples below config/.
        self.folder = tempfile.TemporaryDirectory()
        os.symlink(ROOT / "config", pathlib.Path(self.folder.name) / "config")
        path = os.path.dirname(lockagent) + ":" + os.environ["PATH"]
        self.shell = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.folder.name,
            start_new_session=True,
            env=dict(os.environ, PATH=path, **PATIENT),
        )
        for _ in range(200):
            if self.is_ready():
                return
            time.sleep(0.1)
        said = os.pread(self.output.fileno(), 1 << 20, 0).decode(errors="replace")
        raise SystemExit(f"the agent did not become ready: {said}")

    def is_ready(self):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", self.base)) != 0:
                return False
        ask = "curl -s -o /dev/null -w '%{http_code}' localhost:8080/readyz"
        return self.run(ask).strip() == "200"

    def here(self, command):
        command = command.replace("localhost:8080", f"localhost:{self.base}")
        return re.sub(r"\b700([1-5])\b", lambda m: str(self.base + int(m[1])), command)

    def there(self, output):
        output = output.replace(str(self.base), "8080")
        for master in range(1, MASTERS + 1):
            output = output.replace(f":{self.base + master}", f":{7000 + master}")
        return output

    def write(self, name, text):
        """A file that a page shows, which the commands read or run."""
        path = pathlib.Path(self.folder.name) / name
        path.write_text(self.here(text))
        path.chmod(0o755)

    def run(self, command):
        """The output of the command, standard error included."""
        self.shell.stdin.write(f"{self.here(command)}\nprintf '\\n%s\\n' '{MARK}'\n")
        self.shell.stdin.flush()
        output = ""
        for line in self.shell.stdout:
            if line == MARK + "\n":
                break
            output += line
        return self.there(LATE.sub("", output)).replace("\r", "").strip("\n")

    def printed(self, part):
        """The line with `part` among those that deploy/local/run.sh prints for people."""
        for _ in range(100):
            # The agent writes to the same file, so its position stays as it is.
            printed = os.pread(self.output.fileno(), 1 << 20, 0).decode()
            for line in printed.splitlines():
                if part in line:
                    return line.strip()
            time.sleep(0.1)
        return f"echo no line with {part}"

    def close(self):
        """Also while a command hangs: then it is killed with its shell."""
        self.shell.stdin.close()
        try:
            self.shell.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.agent.send_signal(signal.SIGTERM)
        self.agent.wait(30)
        self.folder.cleanup()
