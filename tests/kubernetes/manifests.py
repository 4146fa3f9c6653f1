#!/usr/bin/env python3
"""Checks the promises of docs/kubernetes.md about deploy/kubernetes: manifests.py LOCKAGENT
[DEPLOY].

Reads the files as they are, without kustomize; each check yields its findings. Prints the findings,
and `N passed, N failed` (checks) at the end.
"""
import functools
import hashlib
import pathlib
import subprocess
import sys
import tempfile

import yaml

SOCKET = "unix:/run/lockagent/api"
TOP = pathlib.Path(__file__).resolve().parents[2]
AGENT, MASTERS = {"lockagent": "true"}, {"app": "lockagent-redis"}
FOLDERS = ("masters", "sidecar", "app", "job", "daemonset", "node-service", "monitoring")
NODES = ("daemonset", "node-service")
TOKEN = "lockagent-token"  # a Secret that docs/kubernetes.md makes by hand
PODS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
KINDS_OF_KUSTOMIZE = ("Kustomization", "Component")
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def seconds(text):
    number = text.rstrip("msh")
    return int(number) * SECONDS[text[len(number) :]]


def mebibytes(text):
    units = {"Ki": 1 / 1024, "Mi": 1, "Gi": 1024}
    return int(text[:-2]) * units[text[-2:]]


def selects(selector, labels):
    return selector.items() <= labels.items()


@functools.cache
def judged(lockagent, text):
    """Runs `lockagent check` on a configuration; returns its exit code and output."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        said, shown = (
            subprocess.run(
                [lockagent, *words, file.name], check=False, capture_output=True, text=True
            )
            for words in (["check"], ["--print-config", "--config"])
        )
    return (said.returncode, said.stdout + said.stderr), yaml.safe_load(shown.stdout) or {}


class Tree:
    """The objects of deploy/kubernetes, by folder and name."""

    def __init__(self, lockagent, deploy):
        self.deploy, self.top = deploy, deploy / "kubernetes"
        self.objects, self.kustomizations = {}, {}
        for path in sorted(self.top.glob("*/*.yaml")):
            for document in yaml.load_all(path.read_text(), LOADER):
                if document.get("kind") in KINDS_OF_KUSTOMIZE:
                    self.kustomizations[path.parent.name] = document
                elif "kind" in document:
                    folder, name = path.parent.name, document["metadata"]["name"]
                    self.objects[folder, document["kind"], name] = document
        command = [self.top / "secrets.sh", "here"]
        made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        self.secrets = {each["metadata"]["name"]: each for each in yaml.load_all(made, LOADER)}
        self.conf = (self.top / "masters/redis.conf").read_text().splitlines()
        self.said, self.config = {}, {}
        for folder in ("sidecar", *NODES, "masters"):
            text = (self.top / folder / "lockagent.yaml").read_text()
            self.said[folder], self.config[folder] = judged(lockagent, text)

    def kind(self, *kinds, folder=None):
        for (place, kind, name), each in self.objects.items():
            if kind in kinds and folder in (None, place):
                yield f"{place}/{kind} {name}", each

    def pods(self):
        """Each pod that is made, as (place, its folder, labels, spec)."""
        for (folder, kind, name), each in self.objects.items():
            if kind in PODS:
                template = each["spec"]["template"]
                labels = template.get("metadata", {}).get("labels", {})
                yield f"{folder}/{kind} {name}", folder, labels, template["spec"]

    def masters(self):
        return [(where, each["spec"]) for where, each in self.kind("StatefulSet", folder="masters")]

    def agents(self):
        """The pods with an agent, as (folder, labels, spec of the pod, the agent's container)."""
        for where, folder, labels, spec in self.pods():
            for container in containers(spec):
                if container["name"] == "lockagent":
                    yield folder, labels, spec, container

    def sidecar(self):
        (found,) = [each for each in self.agents() if each[0] == "sidecar"]
        return found


def containers(spec):
    return spec.get("initContainers", []) + spec.get("containers", [])


def volume_of(spec, container, path):
    """The volume of the file at path in the container, and the path within it."""
    for mount in container["volumeMounts"]:
        if path.startswith(mount["mountPath"] + "/"):
            (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
            return volume, path[len(mount["mountPath"]) + 1 :]
    return {}, path


def kustomizations(tree):
    """Each kustomization names the files of its folder, all of them and no other."""
    for folder in FOLDERS:
        kust = tree.kustomizations[folder]
        named = kust.get("resources", []) + [each["path"] for each in kust.get("patches", [])]
        for generator in kust.get("configMapGenerator", []):
            named += generator["files"]
        there = {path.name for path in (tree.top / folder).iterdir()} - {"kustomization.yaml"}
        if set(named) != there:
            yield f"{folder}: names {sorted(named)}, and has {sorted(there)}"
        for component in kust.get("components", []):
            if (tree.top / folder / component).resolve() != (tree.top / "sidecar").resolve():
                yield f"{folder}: {component} is not the sidecar"
    if {path.name for path in tree.top.iterdir() if path.is_dir()} != set(FOLDERS):
        yield "a folder has no check, or is missing"


def references(tree):
    """All references of a pod are there: ConfigMaps, Secrets, volumes, ports, Services."""
    for where, folder, _, spec in tree.pods():
        maps = {each["name"] for each in tree.kustomizations[folder].get("configMapGenerator", [])}
        volumes = {each["name"] for each in spec.get("volumes", [])}
        volumes |= {
            claim["metadata"]["name"]
            for owner, each in tree.kind("StatefulSet", folder=folder)
            if owner == where
            for claim in each["spec"]["volumeClaimTemplates"]
        }
        used = set()
        for container in containers(spec):
            used |= {mount["name"] for mount in container.get("volumeMounts", [])}
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe"):
                port = container.get(probe, {}).get("httpGet", {}).get("port")
                if port not in ports | {None}:
                    yield f"{where}: {probe} asks a port that has no name, {port}"
        if used != volumes:
            yield f"{where}: mounts {sorted(used)} of the volumes {sorted(volumes)}"
        for volume in spec.get("volumes", []):
            if "configMap" in volume and volume["configMap"]["name"] not in maps:
                yield f"{where}: no ConfigMap {volume['configMap']['name']}"
            secret = volume.get("secret", {}).get("secretName", TOKEN)
            if secret not in {TOKEN, *tree.secrets}:
                yield f"{where}: no Secret {secret}"
    services = dict(tree.kind("Service"))
    for where, spec in tree.masters():
        service = services.get(f"masters/Service {spec['serviceName']}", {}).get("spec", {})
        labels = spec["template"]["metadata"]["labels"]
        ports = [port["name"] for port in spec["template"]["spec"]["containers"][0]["ports"]]
        if service.get("selector") != labels or service["ports"][0]["targetPort"] not in ports:
            yield f"{where}: its Service does not lead to it"
    for where, each in tree.kind(*PODS):
        selector = each["spec"].get("selector", {}).get("matchLabels", {})
        labels = each["spec"]["template"].get("metadata", {}).get("labels", {})
        if not selects(selector, labels):
            yield f"{where}: does not select its own pods"


def native_sidecar(tree):
    """The agent is an init container that goes on, starts before the app, and completes Jobs."""
    _, _, spec, agent = tree.sidecar()
    if spec.get("containers") or spec["initContainers"] != [agent]:
        yield "sidecar: the agent is not the one init container"
    if agent.get("restartPolicy") != "Always":
        yield "sidecar: an init container without restartPolicy: Always holds the app up for ever"
    targets = {each["target"]["kind"] for each in tree.kustomizations["sidecar"]["patches"]}
    if targets != {"Deployment", "StatefulSet", "Job"}:
        yield f"sidecar: is put into {targets}"
    for folder in ("app", "job"):
        if tree.kustomizations[folder].get("components") != ["../sidecar"]:
            yield f"{folder}: has no sidecar"
    if tree.config["sidecar"].get("shutdown", {}).get("unreleased") != "release":
        yield "sidecar: what an app that has ended left is not released"
    for folder in NODES:
        if tree.config[folder].get("shutdown", {}).get("unreleased") != "expire":
            yield f"{folder}: releases what its living callers hold"


def probes(tree):
    """Started with a quorum, alive without one; no probe ends an agent that may hold."""
    for folder, _, spec, agent in tree.agents():
        config = tree.config[folder]
        if "readinessProbe" in agent:
            yield f"{folder}: an outage of Redis takes the pods out of service"
        startup, liveness = agent.get("startupProbe", {}), agent.get("livenessProbe", {})
        if startup.get("exec", {}).get("command") != ["lockagent", "healthcheck", "--ready"]:
            yield f"{folder}: is started without a quorum"
        if folder == "sidecar":
            if liveness.get("exec", {}).get("command") != ["lockagent", "healthcheck"]:
                yield f"{folder}: liveness is not asked over loopback, or asks for more"
        elif liveness.get("httpGet", {}).get("path") != "/livez":
            yield f"{folder}: the liveness probe asks something else than /livez"
        if {p.get("terminationGracePeriodSeconds") for p in (startup, liveness)} != {1}:
            yield f"{folder}: an agent that is stopped is ended later than its leases"
        longest, guard = seconds(config["limits"]["max_ttl"]), 1
        if window(startup) <= 2 * (longest + guard):
            yield f"{folder}: the start is given up before masters have a vote again"
        is_released = config["shutdown"]["unreleased"] == "release"
        if is_released and window(liveness) <= longest + seconds(config["shutdown"]["grace"]):
            yield f"{folder}: a probe that fails releases what a living app holds"
        if spec.get("terminationGracePeriodSeconds", 30) <= seconds(config["shutdown"]["grace"]):
            yield f"{folder}: is killed before it has ended"


def window(probe):
    """For how many seconds it must fail until the container is ended."""
    return probe.get("periodSeconds", 10) * (probe.get("failureThreshold", 3) - 1)


def restricted(tree):
    """PodSecurity `restricted`, except for the DaemonSet's folder on the host."""
    for where, folder, _, spec in tree.pods():
        if folder != "sidecar" and spec.get("automountServiceAccountToken") is not False:
            yield f"{where}: has a token of the API server"
        pod = spec.get("securityContext", {})
        for container in containers(spec):
            context = pod | container.get("securityContext", {})
            name = f"{where}: {container['name']}"
            is_root = (folder, container["name"]) == ("daemonset", "folder")
            user = context.get("runAsUser")
            if not isinstance(user, int) or (context.get("runAsNonRoot"), user > 0) != (
                not is_root,
                not is_root,
            ):
                yield f"{name}: runAsNonRoot {context.get('runAsNonRoot')}, runAsUser {user}"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{name}: can write its root file system"
            if context.get("allowPrivilegeEscalation") is not False:
                yield f"{name}: may gain privileges"
            more = {"add": ["CHOWN", "FOWNER"]} if is_root else {}
            if context.get("capabilities") != {"drop": ["ALL"]} | more:
                yield f"{name}: has capabilities"
            if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
                yield f"{name}: has no seccomp profile"
        host = [each["name"] for each in spec.get("volumes", []) if "hostPath" in each]
        if host != (["socket"] if folder == "daemonset" else []):
            yield f"{where}: has folders of the host"


def resources(tree):
    """Requests of both, a limit of memory that is enough for limits.*, none of CPU."""
    for where, _, _, spec in tree.pods():
        for container in containers(spec):
            wanted = container.get("resources", {})
            if set(wanted.get("requests", {})) != {"cpu", "memory"}:
                yield f"{where}: {container['name']} requests {wanted.get('requests')}"
            if set(wanted.get("limits", {})) != {"memory"}:
                yield f"{where}: {container['name']} is limited in {wanted.get('limits')}"
    for folder, _, spec, agent in tree.agents():
        limits = tree.config[folder]["limits"]
        # docs/masters.md: a hold, its cell of the journal, a caller that waits; and idle
        # connections
        full = 8.1 + (limits["locks"] * 1.7 + limits["waiters"] * 14.4) / 1024
        if mebibytes(agent["resources"]["limits"]["memory"]) < full:
            yield f"{folder}: {full:.0f} MiB may be needed"
        journal, _ = volume_of(spec, agent, tree.config[folder]["journal"]["file"])
        if mebibytes(journal.get("emptyDir", {}).get("sizeLimit", "0Mi")) * 1024 < limits["locks"]:
            yield f"{folder}: the journal has no room for limits.locks"


def apart(tree):
    """Five masters on nodes and volumes of their own, of which a drain takes one."""
    masters = tree.masters()
    if len(masters) != 5:
        yield f"masters: {len(masters)}"
    (budget,) = [each["spec"] for _, each in tree.kind("PodDisruptionBudget")]
    if budget.get("maxUnavailable") != 1:
        yield "masters: a drain may take two"
    alike = set()
    for where, spec in masters:
        name = where.split()[-1]
        alike.add(yaml.safe_dump(spec).replace(name, "NAME").replace(f"'{name[-1]}'", "N"))
        pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
        if any("livenessProbe" in container for container in containers(pod)):
            yield f"{where}: is restarted for being late"
        if spec.get("replicas") != 1:
            yield f"{where}: is more than one server"
        if not selects(budget["selector"]["matchLabels"], labels):
            yield f"{where}: the disruption budget does not know it"
        terms = pod.get("affinity", {}).get("podAntiAffinity", {})
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution", [{}]):
            selector = term.get("labelSelector", {}).get("matchLabels", {"nobody": ""})
            if term.get("topologyKey") != "kubernetes.io/hostname" or not selects(
                selector, MASTERS
            ):
                yield f"{where}: may share its node with another one"
        if not terms:
            yield f"{where}: may share its node with another one"
        if spec.get("updateStrategy", {}).get("type") != "OnDelete":
            yield f"{where}: a change of all five restarts all five at once"
    if len(alike) != 1:
        yield "masters: they differ in more than their number"


def sixth_master(tree):
    """The command of docs/kubernetes.md for one master more leaves no name of the fifth one."""
    page = (TOP / "docs/kubernetes.md").read_text(encoding="utf-8")
    script = page.split("\nsed '", 1)[1].split("'", 1)[0]
    command = ["sed", script, tree.top / "masters/redis-5.yaml"]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for name in ('"5"', "redis-5"):
        if name in made:
            yield f"masters: the command for a sixth master leaves {name}"


def durable(tree):
    """What `durable: true` promises, and the Secret of the rights."""
    lines = [line for line in tree.conf if line and not line.startswith("#")]
    conf = dict(line.split(" ", 1) for line in lines)
    wanted = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
    wanted["no-appendfsync-on-rewrite"] = "no"
    for key, value in wanted.items():
        if conf.get(key) != value:
            yield f"masters/redis.conf: {key} is {conf.get(key)}"
    for where, spec in tree.masters():
        (container,) = spec["template"]["spec"]["containers"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        claims = [claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]]
        *command, folder = container["command"]
        if command != ["redis-server", "/etc/redis/redis.conf", "--dir"]:
            yield f"{where}: runs {command}"
        if mounts.get(folder) not in claims:
            yield f"{where}: its data is on no volume that survives"
        volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
        folder, _, file = conf["aclfile"].rpartition("/")
        secret = volumes.get(mounts.get(folder), {}).get("secret", {}).get("secretName")
        if file not in tree.secrets.get(secret, {}).get("stringData", {}):
            yield f"{where}: has no {conf['aclfile']}"
    password = tree.secrets["lockagent-password"]["stringData"]["password"]
    digest = hashlib.sha256(password.encode()).hexdigest()
    default, user = tree.secrets["redis-acl"]["stringData"]["users.acl"].strip().split("\n")
    full = (tree.deploy / "acl/full.acl").read_text().strip()
    if user.replace(f" #{digest}", "") != full or user == full:
        yield "secrets.sh: the rights are not those of deploy/acl/full.acl, with the password"
    if default != "user default on nopass resetkeys resetchannels -@all +ping":
        yield f"secrets.sh: who knows no password may do more than PING: {default}"


def services_of(tree):
    """The masters' URLs."""
    return {
        f"redis://{each['metadata']['name']}.{tree.kustomizations['masters']['namespace']}.svc:"
        f"{each['spec']['ports'][0]['port']}"
        for _, each in tree.kind("Service", folder="masters")
    }


def first_votes(tree):
    """The Job that gives the masters their first votes: once, and for the agents' group."""
    job = tree.objects["masters", "Job", "first-votes"]["spec"]
    spec = job["template"]["spec"]
    (container,) = spec["containers"]
    if job.get("backoffLimit") != 0 or spec.get("restartPolicy") != "Never":
        yield "first-votes: is run again"
    if "lockagent trust --new /etc/lockagent/lockagent.yaml" not in container["args"][0]:
        yield f"first-votes: runs {container['args']}"
    read, file = volume_of(spec, container, "/etc/lockagent/lockagent.yaml")
    if read.get("configMap", {}).get("name") != "lockagent" or file != "lockagent.yaml":
        yield "first-votes: reads another configuration"
    code, said = tree.said["masters"]
    if code != 0:
        yield f"first-votes: lockagent check: {said}"
        return
    config, agents = tree.config["masters"], tree.config["sidecar"]
    group = config["redis"]["groups"]["main"]
    if set(group["masters"]) != services_of(tree) or group["durable"] is not True:
        yield "first-votes: its masters are not those of masters/"
    if config["limits"]["max_ttl"] != agents["limits"]["max_ttl"]:
        yield "first-votes: limits.max_ttl is not that of the agents"
    volume, key = volume_of(spec, container, yaml_of(tree, "masters")["password_file"])
    secret = tree.secrets.get(volume.get("secret", {}).get("secretName"), {})
    if key not in secret.get("stringData", {}):
        yield "first-votes: no Secret has its password"


def configurations(tree):
    """Each agent's configuration fits the pod and the masters around it."""
    services = services_of(tree)
    for folder, _, spec, agent in tree.agents():
        code, said = tree.said[folder]
        if code != 0 or not said.endswith(": ok\n"):
            yield f"{folder}: lockagent check: {said}"
            continue
        config = tree.config[folder]
        group = config["redis"]["groups"]["main"]
        if set(group["masters"]) != services or group["durable"] is not True:
            yield f"{folder}: its masters are not those of masters/"
        volume, key = volume_of(spec, agent, yaml_of(tree, folder)["password_file"])
        secret = tree.secrets.get(volume.get("secret", {}).get("secretName"), {})
        if key not in secret.get("stringData", {}):
            yield f"{folder}: no Secret has its password"
        if volume.get("secret", {}).get("optional") is not True:
            yield f"{folder}: masters without a password need a Secret"
        journal, _ = volume_of(spec, agent, config["journal"]["file"])
        if journal.get("emptyDir", {}).get("medium") != "Memory":
            yield f"{folder}: the journal is on no memory volume"
        users = [each for each in containers(spec) if journal.get("name") in names_mounted(each)]
        if users != [agent]:
            yield f"{folder}: others than the agent see the journal"
        ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
        if [f"0.0.0.0:{ports['lockagent']}"] != listeners(config):
            yield f"{folder}: the port of metrics is another one"
        read, file = volume_of(spec, agent, agent["args"][-1])
        if file != "lockagent.yaml" or "configMap" not in read:
            yield f"{folder}: reads another configuration"
    if tree.config["daemonset"].get("listen") not in ([SOCKET], SOCKET):
        yield "daemonset: no socket in the host's folder"


def node_service(tree):
    """Only callers with the token reach the agent, and only that of their own node."""
    (found,) = [each for each in tree.agents() if each[0] == "node-service"]
    _, labels, spec, agent = found
    ports = {port["name"]: port["containerPort"] for port in agent["ports"]}
    service = tree.objects["node-service", "Service", "lockagent"]["spec"]
    file = yaml.safe_load((tree.top / "node-service/lockagent.yaml").read_text())
    if file["listen"] != f"0.0.0.0:{ports.get(service['ports'][0]['targetPort'])}":
        yield "node-service: the Service leads to a port at which no agent listens"
    if not selects(service["selector"], labels):
        yield "node-service: the Service does not lead to its pods"
    if service.get("internalTrafficPolicy") != "Local":
        yield "node-service: the token leaves the node"
    volume, _ = volume_of(spec, agent, file.get("api", {}).get("token_file", ""))
    secret = volume.get("secret", {})
    if secret.get("secretName") != TOKEN or secret.get("optional"):
        yield "node-service: the agent starts without the token"
    made = f"create secret generic {TOKEN} --from-literal=token="
    if made not in (TOP / "docs/kubernetes.md").read_text():
        yield f"docs/kubernetes.md: nothing makes the Secret {TOKEN}"
    level = tree.objects["node-service", "Namespace", "lockagent-node"]["metadata"]["labels"]
    if level.get("pod-security.kubernetes.io/enforce") != "restricted":
        yield "node-service: its namespace is not restricted"


def listeners(config):
    listen = config["admin"]["listen"]
    return [listen] if isinstance(listen, str) else listen


def names_mounted(container):
    return [mount["name"] for mount in container.get("volumeMounts", [])]


def yaml_of(tree, folder):
    """The group as its file has it: the printed one leaves secrets out."""
    file = yaml.safe_load((tree.top / folder / "lockagent.yaml").read_text())
    return file["redis"]["groups"]["main"]


def network(tree):
    """Only pods with an agent reach the masters, and masters reach no pod."""
    ((_, policy),) = tree.kind("NetworkPolicy")
    spec = policy["spec"]
    (rule,) = spec["ingress"]
    peer, first = rule.get("from", [{}, {}])
    pods = peer.get("podSelector", {}).get("matchLabels", {})
    namespaces = peer.get("namespaceSelector", {}).get("matchLabels", {})
    if set(spec["policyTypes"]) != {"Ingress", "Egress"} or spec.get("egress"):
        yield "network: masters reach others"
    for where, each in tree.masters():
        labels = each["template"]["metadata"]["labels"]
        ports = [
            port["containerPort"] for port in each["template"]["spec"]["containers"][0]["ports"]
        ]
        if not selects(spec["podSelector"]["matchLabels"], labels):
            yield f"network: {where} is open"
        if ports != [port["port"] for port in rule["ports"]]:
            yield f"network: {where} has another port"
        if selects(pods, labels):
            yield f"network: {where} is let in, or everybody is"
    for folder, labels, _, _ in tree.agents():
        if not selects(pods, labels):
            yield f"network: the agent of {folder}/ is kept out"
    votes = tree.objects["masters", "Job", "first-votes"]["spec"]["template"]["metadata"]["labels"]
    if first != {"podSelector": {"matchLabels": votes}}:
        yield "network: not the Job of the first votes is let in beside agents"
    if namespaces != AGENT:
        yield f"network: the namespaces are {namespaces}"
    for folder in NODES:
        labels = tree.objects[folder, "Namespace", "lockagent-node"]["metadata"]["labels"]
        if not selects(namespaces, labels):
            yield f"network: the namespace of {folder}/ is kept out"


def monitoring(tree):
    """The rules are those of deploy/prometheus, and the monitor finds agents under their job."""
    rules = yaml.load((tree.deploy / "prometheus/lockagent.rules.yaml").read_text(), LOADER)
    ((_, copy),) = tree.kind("PrometheusRule")
    if copy["spec"] != rules:
        yield "monitoring/rules.yaml: is not deploy/prometheus/lockagent.rules.yaml"
    ((_, monitor),) = tree.kind("PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    for folder, labels, _, agent in tree.agents():
        if not selects(monitor["spec"]["selector"]["matchLabels"], labels):
            yield f"monitoring: the agent of {folder}/ is not found"
        if endpoint["port"] not in [port["name"] for port in agent["ports"]]:
            yield f"monitoring: the agent of {folder}/ has no port {endpoint['port']}"
    if {"targetLabel": "job", "replacement": "lockagent"} not in endpoint.get("relabelings", []):
        yield "monitoring: the rules take the job to be called lockagent"


CHECKS = (
    kustomizations,
    references,
    native_sidecar,
    probes,
    restricted,
    resources,
    apart,
    sixth_master,
    durable,
    first_votes,
    configurations,
    node_service,
    network,
    monitoring,
)


def findings(lockagent, deploy):
    tree = Tree(lockagent, deploy)
    return {check.__name__: list(check(tree)) for check in CHECKS}


def main(lockagent, deploy=TOP / "deploy"):
    found = findings(lockagent, pathlib.Path(deploy))
    for check, faults in found.items():
        print(*(f"FAILED {check}: {fault}" for fault in faults), sep="\n", end="\n" * bool(faults))
    failed = sum(bool(faults) for faults in found.values())
    print(f"{len(found) - failed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
