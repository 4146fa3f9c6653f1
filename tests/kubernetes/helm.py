"""Looks at the charts of deploy/helm.

They are linted, rendered and held against the golden files beside this one, against kustomize's
output for deploy/kubernetes, and against the API server's own reader (the program of this folder);
values that cannot be meant are refused.
"""
import pathlib
import re
import shutil
import tempfile

import yaml
from render import FOLDER, said_by

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
CHARTS = FOLDER.parent / "helm"
RENDERED = {
    "app": ("example",),
    "app-own-values": (
        "example",
        "--set=lockagent.image=registry.example:5000/lockagent:1.2.3",
        "--set=lockagent.config.limits.max_ttl=2m,lockagent.livenessFailures=15",
        "--set=lockagent.config.redis.groups.main.masters={rediss://a:6379,rediss://b:6379}",
        "--set=lockagent.passwordSecret=other",
    ),
    "masters": ("lockagent-masters",),
    "masters-own-values": (
        "lockagent-masters",
        "--set=masters=3,image=redis:8.2,storage=1Gi,storageClass=fast,networkPolicy=false",
        "--set=agentImage=lockagent:1.2.3,maxTtl=2m",
        "--set=monitoring=true",
    ),
}
# a value that must be refused, and the text that the refusal must have
REFUSED = (
    ("lockagent-masters", "masters=4", "masters must be one of"),
    ("lockagent-masters", "image=redis", "image: Does not match pattern"),
    ("lockagent-masters", "agentImage=lockagent", "agentImage: Does not match pattern"),
    ("lockagent-masters", "maxTtl=60", "maxTtl: "),
    ("lockagent-masters", "storage=much", "storage: Does not match pattern"),
    ("lockagent-masters", "replicas=5", "Additional property replicas is not allowed"),
    ("lockagent-masters", "monitoring=maybe", "monitoring: Invalid type"),
    ("lockagent-masters", "resources.limits.memory=null", "memory is required"),
    ("example", "lockagent.image=lockagent", "image: Does not match pattern"),
    ("example", "lockagent.resources.limits.cpu=1", "Additional property cpu is not allowed"),
    ("example", "lockagent.ttl=30s", "Additional property ttl is not allowed"),
    ("example", "lockagent.config.watchdog=on", "Additional property watchdog is not allowed"),
    ("example", "lockagent.config.shutdown.unreleased=keep", "unreleased must be one of"),
    ("example", "lockagent.config.redis.groups.main=null", "Must have at least 1 properties"),
    ("example", "lockagent.livenessFailures=1", "greater than or equal to 2"),
    ("example", "lockagent.journalSize=16MB", "journalSize: Does not match pattern"),
)
# helm takes a very old one for granted when it was not built for a release
VERSION = "--kube-version=1.34.0"
MONITORING = ("PodMonitor", "PrometheusRule")  # not kinds of Kubernetes itself


def objects_of(text):
    """Objects by kind and name. Drops kustomize's additions (namespaces, and hashes behind names)
    and the marks of helm's hooks."""
    text = re.sub(r"\b(redis|lockagent)-[0-9a-z]{10}$", r"\1", text, flags=re.M)
    found = {}
    for each in filter(None, yaml.safe_load_all(text)):
        each["metadata"].pop("namespace", None)
        hook = each["metadata"].get("annotations", {})
        for name in [name for name in hook if name.startswith("helm.sh/hook")]:
            del hook[name]
        if not hook:
            each["metadata"].pop("annotations", None)
        found[each["kind"], each["metadata"]["name"]] = each
    return found


def sidecar_of(objects):
    """All that the agent adds to a Deployment, and its configuration."""
    pod = objects["Deployment", "app"]["spec"]["template"]
    volumes = [each for each in pod["spec"]["volumes"] if each["name"].startswith("lockagent")]
    (agent,) = pod["spec"]["initContainers"]
    (conf,) = [each for (kind, _), each in objects.items() if kind == "ConfigMap"]
    mounted = volumes[0]["configMap"].pop("name")
    config = yaml.safe_load(conf["data"]["lockagent.yaml"])
    assert agent.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"  # of a tag, by default
    assert mounted == conf["metadata"]["name"], f"{mounted} is mounted, and there is another"
    config.pop("policies", None)  # the sample of values
    return {"agent": agent, "volumes": volumes, "labels": pod["metadata"]["labels"], "conf": config}


def masters_of(objects):
    """All of it; a configuration is compared by its content."""
    conf = objects["ConfigMap", "lockagent"]["data"]
    conf["lockagent.yaml"] = yaml.safe_load(conf["lockagent.yaml"])
    return objects


def differences(ours, theirs, at=""):
    """The places in which two trees are not alike."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() ^ theirs.keys(), key=str):
            yield f"{at}/{key}: only in {'the chart' if key in ours else 'deploy/kubernetes'}"
        for key in ours.keys() & theirs.keys():
            yield from differences(ours[key], theirs[key], f"{at}/{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{at}/{i}")
    elif ours != theirs:
        yield f"{at}: {ours!r} in the chart, {theirs!r} in deploy/kubernetes"


class Charts:
    def __init__(self, helm, kustomize, strict, lockagent, charts):
        self.helm, self.kustomize, self.strict = helm, kustomize, strict
        self.lockagent, self.charts = lockagent, charts

    def render(self, chart, *options):
        return said_by(self.helm, "template", "app", self.charts / chart, VERSION, *options)

    def lint(self, chart):
        return said_by(self.helm, "lint", "--strict", VERSION, chart)[0]

    def as_written(self):
        """The charts as they are, with their links."""
        for chart in sorted(path.name for path in CHARTS.iterdir()):
            if chart != "example":  # it wants its dependency
                yield f"{chart}: lint", self.lint(CHARTS / chart)
        fault, _ = said_by(self.helm, "dependency", "build", self.charts / "example")
        yield "example: has its dependency", fault
        yield "example: lint", self.lint(self.charts / "example")

    def rendered(self, write):
        for name, (chart, *options) in RENDERED.items():
            fault, text = self.render(chart, *options)
            yield f"chart, {name}: is rendered", fault
            golden = GOLDEN / f"{name}.yaml"
            if write:
                golden.write_text(text)
            same = golden.exists() and golden.read_text() == text
            yield f"chart, {name}: is as {golden.name}", not same and "see git diff after WRITE=1"
            own = yaml.safe_dump_all(
                each for (kind, _), each in objects_of(text).items() if kind not in MONITORING
            )
            yield f"chart, {name}: is read, and restricted", said_by(
                self.strict, "restricted", text=own
            )[0]

    def alike(self):
        for chart, folder, part in (
            ("lockagent-masters", "masters", masters_of),
            ("example", "app", sidecar_of),
        ):
            ours = objects_of(self.render(chart, "--namespace=lockagent")[1])
            theirs = objects_of(said_by(self.kustomize, "build", str(FOLDER / folder))[1])
            theirs.pop(("Namespace", "lockagent"), None)
            found = "\n".join(differences(part(ours), part(theirs)))
            yield f"{chart}: is what deploy/kubernetes/{folder} is", found
        with_monitoring = objects_of(self.render("lockagent-masters", "--set=monitoring=true")[1])
        theirs = objects_of(said_by(self.kustomize, "build", str(FOLDER / "monitoring"))[1])
        ours = {key: each for key, each in with_monitoring.items() if key[0] in MONITORING}
        found = "\n".join(differences(ours, theirs))
        yield "lockagent-masters: monitors as deploy/kubernetes/monitoring", found

    def configuration(self):
        for name, (chart, *options) in RENDERED.items():
            for (kind, _), each in objects_of(self.render(chart, *options)[1]).items():
                if kind != "ConfigMap" or "lockagent.yaml" not in each["data"]:
                    continue
                with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    file.write(each["data"]["lockagent.yaml"])
                    file.flush()
                    fault = said_by(self.lockagent, "check", file.name)[0]
                yield f"chart, {name}: lockagent check has nothing to say", fault

    def refused(self):
        for chart, value, wanted in REFUSED:
            fault = self.render(chart, f"--set={value}")[0]
            right = fault and wanted in fault
            yield f"{chart}: {value} is refused", not right and (fault or "it is taken")
        old = self.render("example", "--kube-version=1.28.0")[0]
        right = old and "native sidecars" in old
        yield "example: no native sidecars in Kubernetes 1.28", not right and (old or "it is taken")


def looks(helm, kustomize, strict, lockagent, write):
    """Each look at the charts, as (expected state, message if it is not so)."""
    with tempfile.TemporaryDirectory(prefix="lockagent-helm-") as folder:
        charts = pathlib.Path(folder) / "helm"
        shutil.copytree(CHARTS, charts)
        charts = Charts(helm, kustomize, strict, lockagent, charts)
        yield from charts.as_written()
        yield from charts.rendered(write)
        yield from charts.alike()
        yield from charts.configuration()
        yield from charts.refused()
