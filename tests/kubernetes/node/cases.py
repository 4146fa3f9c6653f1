#!/usr/bin/env python3
"""How a kubelet treats the sidecar: cases.py KUSTOMIZE STATE LOCKAGENT-IMAGE CURL-IMAGE.

Runs inside the node that inside.sh has made. The pods are those that kustomize makes of
deploy/kubernetes/job, with other commands of the app, as static pods; POD_OF has the changes. The
masters are real servers with the configuration of deploy/kubernetes/masters, beside the pods on the
node's network. The last line is `N passed, N failed`.
"""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys
import time

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from marking import mark_master

DEPLOY = pathlib.Path(__file__).resolve().parents[3] / "deploy/kubernetes"
MASTERS, PORT, PATIENCE_S = 5, 7000, 30
LOCK = "http://localhost:8080/locks/node"
# An app that follows orders: takes the lock, says so, and lets go of it when it is to end.
WAITS_FOR_TERM = f"""
    post() {{ curl -s -X POST "{LOCK}?wait=30s" -H 'Accept: text/plain'; }}
    token=$(post)
    trap 'curl -s -o /dev/null -w "%{{http_code}}" \\
              -X DELETE {LOCK} -H "Lock-Token: $token" >/out/deleted
          date +%s.%N >/out/ended; exit 0' TERM
    echo "$token" >/out/token
    while :; do sleep 1 & wait $!; done
"""
LEAVES_A_HOLD = f"""
    curl -sf -X POST "{LOCK}?wait=30s" -H 'Accept: text/plain' >/out/token
    date +%s.%N >/out/ended
"""
COMPLETES = f"""
    token=$(curl -sf -X POST "{LOCK}?wait=30s" -H 'Accept: text/plain')
    echo "$token" >/out/token
    curl -sf -X DELETE "{LOCK}" -H "Lock-Token: $token"
    date +%s.%N >/out/ended
"""


class Unseen(Exception):
    """An expected sight did not come."""


def see(what, is_so):
    if not is_so:
        raise Unseen(what)


def await_sight(what, look, patience_s=PATIENCE_S):
    ends = time.monotonic() + patience_s
    while True:
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError, LookupError):
            if found := look():
                return found
        if time.monotonic() > ends:
            raise Unseen(f"{what}: not within {patience_s} s")
        time.sleep(0.05)


def ask(method, path, port=8080, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


class Masters:
    """Five servers, as a StatefulSet starts them; their ports are all that is changed."""

    def __init__(self, state):
        self.state, self.running = state / "masters", {}
        made = subprocess.run(
            [DEPLOY / "secrets.sh", "default"], check=True, capture_output=True, text=True
        ).stdout
        secrets = {each["metadata"]["name"]: each for each in yaml.safe_load_all(made)}
        self.password = secrets["lockagent-password"]["stringData"]["password"]
        acl = self.state / "users.acl"
        self.state.mkdir()
        acl.write_text(secrets["redis-acl"]["stringData"]["users.acl"])
        conf = (DEPLOY / "masters/redis.conf").read_text()
        self.conf = self.state / "redis.conf"
        self.conf.write_text(conf.replace("/etc/redis-acl/users.acl", str(acl)))

    def start(self, *which):
        """Those that are new vote at once, as the Job of their first votes leaves them."""
        new = [i for i in which if not (self.state / str(i)).exists()]
        for i in which:
            folder = self.state / str(i)
            folder.mkdir(exist_ok=True)
            with open(folder / "log", "ab") as log:
                self.running[i] = subprocess.Popen(
                    ["redis-server", self.conf, "--port", str(PORT + i), "--dir", folder],
                    stdout=log,
                    stderr=log,
                )
        for i in new:
            await_sight(f"master {i} answers", lambda i=i: self.answers(i))
            mark_master(*self.client(i))

    def client(self, i):
        return [
            *("-p", str(PORT + i), "--user", "lockagent", "--pass", self.password),
            "--no-auth-warning",
        ]

    def answers(self, i):
        asked = subprocess.run(
            ["redis-cli", "-e", *self.client(i), "PING"], capture_output=True, text=True
        )
        return asked.stdout == "PONG\n"

    def stop(self, *which):
        for i in which:
            self.running[i].terminate()
            self.running.pop(i).wait()

    def keys(self):
        """The locks that are on any of them; numbers and markers stay."""
        found = set()
        for i in self.running:
            said = subprocess.run(
                ["redis-cli", *self.client(i), "EXISTS", "lock:node"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.strip()
            if said != "0":
                found.add(f"{i}: {said}")
        return found


class Node:
    def __init__(self, kustomize, state, image, curl):
        self.state, self.image, self.curl = state, image, curl
        self.masters, self.pods = Masters(state), 0
        text = subprocess.run(
            [kustomize, "build", DEPLOY / "job"], check=True, capture_output=True, text=True
        ).stdout
        self.objects = {each["kind"]: each for each in yaml.safe_load_all(text)}

    # ---- pods

    def start(self, script, change=lambda agent, config: None):
        """A pod with the sidecar whose app is `script`; returns its name and the app's folder."""
        self.pods += 1
        name = f"case-{self.pods}"  # a static pod of the same name would inherit its back-off
        folder = self.state / name
        for part in ("conf", "password", "out"):
            (folder / part).mkdir(parents=True)
        (folder / "out").chmod(0o777)
        (folder / "password/password").write_text(self.masters.password)
        pod = self.pod_of(name, folder, script, change)
        made = folder / "pod.yaml"
        made.write_text(yaml.safe_dump(pod))
        made.rename(self.state / "manifests" / f"{name}.yaml")
        return name, folder / "out"

    def pod_of(self, name, folder, script, change):
        """The Job's pod, without the parts that a node without an API server and a registry cannot
        have.
        """
        template = json.loads(json.dumps(self.objects["Job"]["spec"]["template"]))
        spec = template["spec"]
        (agent,), (app,) = spec["initContainers"], spec["containers"]
        config = yaml.safe_load(self.objects["ConfigMap"]["data"]["lockagent.yaml"])
        group = config["redis"]["groups"]["main"]
        group["masters"] = [f"redis://127.0.0.1:{PORT + i}" for i in range(MASTERS)]
        # shorter leases and guards, and a grace that would show
        config["limits"] = {"max_ttl": "10s"}
        config["policies"] = [{"match": "*", "ttl": "8s"}]
        config["shutdown"]["grace"] = "20s"
        change(agent, config)
        (folder / "conf/lockagent.yaml").write_text(yaml.safe_dump(config))
        spec["hostNetwork"] = True  # no CNI here; the masters are beside it
        spec["terminationGracePeriodSeconds"] = 40
        for volume, part in (("lockagent-conf", "conf"), ("lockagent-password", "password")):
            (found,) = [each for each in spec["volumes"] if each["name"] == volume]
            found.pop("configMap", found.pop("secret", None))
            found["hostPath"] = {"path": str(folder / part)}
        spec["volumes"].append({"name": "out", "hostPath": {"path": str(folder / "out")}})
        app["volumeMounts"] = [{"name": "out", "mountPath": "/out"}]
        app["args"] = [script]
        agent["image"], app["image"] = self.image, self.curl
        for container in (agent, app):
            container["imagePullPolicy"] = "Never"
        metadata = {"name": name, "namespace": "default"} | template.get("metadata", {})
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def delete(self, name):
        (self.state / "manifests" / f"{name}.yaml").unlink()

    def status(self, name):
        pods = json.loads(ask("GET", "/pods", 10255)[1])["items"] or []
        (found,) = [each for each in pods if each["metadata"]["name"] == f"{name}-node1"]
        return found["status"]

    def app_of(self, name):
        (found,) = self.status(name).get("containerStatuses", [{}])
        return found.get("state", {})

    def agent_of(self, name):
        (found,) = self.status(name).get("initContainerStatuses", [{}])
        return found

    def tasks(self):
        """Returns how many containers run; the holder of a pod's namespaces is one as well."""
        said = subprocess.run(
            ["ctr", "-n", "k8s.io", "tasks", "list", "-q"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        return len(said.split())

    def agent_pid(self):
        """The agent's process; there is one pod at a time."""
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if words[0].endswith(b"lockagent") and b"serve" in words:
                    return int(path.parent.name)
        return 0

    def log_of(self, name):
        folder = pathlib.Path("/var/log/pods").glob(f"default_{name}-node1_*/lockagent/*.log")
        lines = "".join(path.read_text() for path in sorted(folder)).splitlines()
        return [json.loads(line.split(" ", 3)[3]) for line in lines]

    def await_end(self, name):
        await_sight(f"{name} has ended", lambda: self.tasks() == 0)

    # ---- cases

    def the_app_starts_only_when_a_quorum_votes(self):
        self.masters.start(0, 1)
        name, out = self.start(WAITS_FOR_TERM)
        await_sight("the agent runs", lambda: "running" in self.agent_of(name)["state"])
        for _ in range(30):
            see("the app waits", "waiting" in self.app_of(name) and not (out / "token").exists())
            time.sleep(0.1)
        see("the agent has not started", not self.agent_of(name)["started"])
        self.masters.start(2, 3, 4)
        began = time.monotonic()
        await_sight("the app runs, and has the lock", (out / "token").exists)
        print(f"        {time.monotonic() - began:.1f} s from the quorum to the app's lock")
        see("the agent has started", self.agent_of(name)["started"])
        self.delete(name)
        self.await_end(name)

    def a_deleted_pod_releases_and_then_drains(self):
        name, out = self.start(WAITS_FOR_TERM)
        await_sight("the app has the lock", (out / "token").exists)
        see("it is on the masters", self.masters.keys())
        self.delete(name)
        self.await_end(name)
        see("its DELETE was answered", (out / "deleted").read_text() == "204")
        see("no key is left", not self.masters.keys())
        said = [each["msg"] for each in self.log_of(name)]
        see(f"the agent drained: {said[-3:]}", "draining" in said)
        released = [each for each in self.log_of(name) if each["msg"] == "draining"][0]
        see("it had nothing left to release", released["locks_held"] == 0)

    def a_job_completes_and_leaves_no_key(self):
        name, out = self.start(COMPLETES)
        await_sight("the app has ended", (out / "ended").exists)
        self.await_end(name)
        see("the app has succeeded", self.app_of(name)["terminated"]["exitCode"] == 0)
        see("no key is left", not self.masters.keys())
        self.delete(name)

    def a_hold_left_behind_does_not_keep_the_job(self):
        name, out = self.start(LEAVES_A_HOLD)
        await_sight("the app has ended", (out / "ended").exists)
        await_sight("the agent has ended", lambda: not self.agent_pid())
        took_s = time.time() - float((out / "ended").read_text())
        see(f"it waited for no grace: {took_s:.1f} s", took_s < 10)
        print(f"        {took_s:.1f} s from the app's end to the agent's")
        see("no key is left", not self.masters.keys())
        self.await_end(name)
        self.delete(name)

    def an_agent_that_is_killed_resumes(self):
        name, out = self.start(WAITS_FOR_TERM)
        await_sight("the app has the lock", (out / "token").exists)
        token = (out / "token").read_text().strip()
        number = re.search(r"\.(\d+)$", token)[1]
        see("the agent renews it", ask("GET", "/locks/node")[0] == 200)
        pid = self.agent_pid()
        began = time.monotonic()
        subprocess.run(["kill", "-KILL", str(pid)], check=True)
        await_sight("it is back", lambda: self.agent_pid() not in (0, pid))
        found = await_sight(
            "it has resumed",
            lambda: str(json.loads(ask("GET", "/locks/node")[1])["hold"]["fencing_token"]),
        )
        see(f"the number is the same: {found}, {number}", found == number)
        await_sight(
            "PUT with the token is answered 200",
            lambda: ask("PUT", "/locks/node", **{"Lock-Token": token})[0] == 200,
        )
        took_s = time.monotonic() - began
        print(f"        {took_s:.1f} s from the kill to the PUT")
        see("the app was not touched", self.app_of(name).get("running"))
        see("within 2 s", took_s < 2)
        self.delete(name)
        self.await_end(name)


CASES = (
    Node.the_app_starts_only_when_a_quorum_votes,
    Node.a_deleted_pod_releases_and_then_drains,
    Node.a_job_completes_and_leaves_no_key,
    Node.a_hold_left_behind_does_not_keep_the_job,
    Node.an_agent_that_is_killed_resumes,
)


def main(kustomize, state, image, curl):
    node = Node(kustomize, pathlib.Path(state), image, curl)
    await_sight("the kubelet answers", lambda: ask("GET", "/pods", 10255)[0] == 200)
    passed = 0
    for case in CASES:
        title = case.__name__.replace("_", " ")
        try:
            case(node)
            passed += 1
            print(f"ok      {title}", flush=True)
        except (Unseen, OSError, LookupError, ValueError, TypeError) as why:
            print(f"FAILED  {title}\n        {type(why).__name__}: {why}", flush=True)
            for path in (pathlib.Path(state) / "manifests").glob("*.yaml"):
                path.unlink()
            with contextlib.suppress(Unseen):
                await_sight("its pod ends", lambda: node.tasks() == 0, 60)
    print(f"{passed} passed, {len(CASES) - passed} failed")
    return int(passed < len(CASES))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
