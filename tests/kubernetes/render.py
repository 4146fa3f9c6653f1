"""Looks at deploy/kubernetes, rendered by kustomize.

It is read as a server reads it, by the program of this folder. Each part must be admitted at the
level of PodSecurity that its page names, and two faults that are made here must be refused.
"""
import os
import pathlib
import re
import subprocess
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
FOLDER = TOP / "deploy/kubernetes"
# hostPath of the node's agent is for privileged namespaces alone
LEVELS = {
    "masters": "restricted",
    "app": "restricted",
    "job": "restricted",
    "daemonset": "privileged",
    "node-service": "restricted",
}
# the text in a rendered sidecar, and a value that a server must refuse in its place
REFUSED = (
    ("restartPolicy: Always", "restartPolicies: Always"),
    ("runAsNonRoot: true", "runAsNonRoot: false"),
)

# an app of one's own, which has an init container already
OWN = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: own}
spec:
  serviceName: own
  selector: {matchLabels: {app: own}}
  template:
    metadata: {labels: {app: own}}
    spec:
      initContainers: [{name: migration, image: own}]
      containers: [{name: app, image: own}]
"""


def said_by(*command, text=None):
    """Returns the error text of a command: None if it ends well."""
    ran = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode and (ran.stdout + ran.stderr or "no word"), ran.stdout


def looks(kustomize, strict):
    """Each look at the manifests, as (expected state, message if it is not so)."""
    rendered = {}
    for folder in [*LEVELS, "monitoring"]:
        fault, rendered[folder] = said_by(kustomize, "build", str(FOLDER / folder))
        yield f"{folder}: is rendered", fault
    for folder, level in LEVELS.items():
        yield f"{folder}: is read, and {level}", said_by(strict, level, text=rendered[folder])[0]
    for folder in ("app", "job"):
        is_there = "image: lockagent:" in rendered[folder]
        yield f"{folder}: has the sidecar", not is_there and rendered[folder]
        for old, new in REFUSED:
            broken = rendered[folder].replace(old, new)
            fault = broken == rendered[folder] or not said_by(strict, "restricted", text=broken)[0]
            yield f"{folder}: {new} is refused", fault and broken
    fault, own = render_own_masters(kustomize)
    yield "one's own masters: are rendered", fault
    yield "one's own masters: are read", said_by(strict, "baseline", text=own)[0]
    is_named = "redis://10.0.0.1:6379" in own and "redis-1.lockagent.svc" not in own
    yield "one's own masters: replace those of the sidecar", not is_named and own
    fault, own = render_own(kustomize)
    yield "an app of one's own: is rendered", fault
    yield "an app of one's own: is read", said_by(strict, "baseline", text=own)[0]
    is_first = 0 < own.find("name: lockagent-password") < own.find("name: migration")
    yield "the agent comes before the app's own init containers", not is_first and own
    fault = said_by(strict, "restricted", text=rendered["daemonset"])[0]
    yield "daemonset: is no restricted pod", not fault and "it is admitted"
    made = said_by(str(FOLDER / "secrets.sh"), "here", "there")[1]
    yield "secrets.sh: is read", said_by(strict, text=made)[0]


def render_own_masters(kustomize):
    """Renders the files that docs/kubernetes.md shows for them."""
    page = (TOP / "docs/kubernetes.md").read_text().split("### One's own masters")[1]
    files = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```$", page.split("\n## ")[0], re.S | re.M)
    with tempfile.TemporaryDirectory(prefix="lockagent-kustomize-") as folder:
        own = pathlib.Path(folder)
        (own / "deployment.yaml").write_text(OWN)
        for name, text in files:
            (own / name).parent.mkdir(exist_ok=True)
            sidecar = os.path.relpath(FOLDER / "sidecar", own.resolve())
            (own / name).write_text(text.replace("../lockagent/deploy/kubernetes/sidecar", sidecar))
        return said_by(kustomize, "build", folder)


def render_own(kustomize):
    with tempfile.TemporaryDirectory(prefix="lockagent-kustomize-") as folder:
        own = pathlib.Path(folder)
        (own / "own.yaml").write_text(OWN)
        sidecar = os.path.relpath(FOLDER / "sidecar", own.resolve())
        text = f"resources: [own.yaml]\ncomponents: ['{sidecar}']\n"
        (own / "kustomization.yaml").write_text(text)
        return said_by(kustomize, "build", folder)
