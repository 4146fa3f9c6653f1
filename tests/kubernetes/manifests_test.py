#!/usr/bin/env python3
"""The manifests keep their promises, and each check can fail: manifests_test.py LOCKAGENT.

A mutant is a replacement in a file of a copy of deploy/, or in all five of the masters; the check
that is named must find it.
Ends with 77 without python3-yaml.
"""
import concurrent.futures
import pathlib
import shutil
import sys
import tempfile

try:
    import manifests
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

AGENT, MASTERS, NODE = "sidecar/pod.yaml", "masters/redis-?.yaml", "daemonset/daemonset.yaml"
# file, the text there, its replacement, the check that must find it
MUTANTS = (
    ("masters/kustomization.yaml", "  - redis-5.yaml\n", "", "kustomizations"),
    ("masters/kustomization.yaml", "redis.conf", "other.conf", "kustomizations"),
    ("app/kustomization.yaml", "../sidecar", "../job", "kustomizations"),
    ("sidecar/kustomization.yaml", "name: lockagent", "name: other", "references"),
    (AGENT, "secretName: lockagent-password", "secretName: other", "references"),
    (NODE, "port: lockagent}", "port: admin}", "references"),
    (AGENT, "name: lockagent-journal, mountPath", "name: journal, mountPath", "references"),
    (MASTERS, "serviceName: redis-", "serviceName: master-", "references"),
    (MASTERS, "targetPort: redis", "targetPort: other", "references"),
    (MASTERS, "selector: {app: lockagent-redis, ", "selector: {app: x, ", "references"),
    ("app/deployment.yaml", "matchLabels: {app: app}", "matchLabels: {app: x}", "references"),
    (AGENT, "restartPolicy: Always", "imagePullPolicy: Always", "native_sidecar"),
    (AGENT, "      initContainers:", "      containers:", "native_sidecar"),
    ("sidecar/kustomization.yaml", "kind: Job", "kind: CronJob", "native_sidecar"),
    ("sidecar/lockagent.yaml", "unreleased: release", "unreleased: expire", "native_sidecar"),
    ("daemonset/lockagent.yaml", "unreleased: expire", "unreleased: release", "native_sidecar"),
    ("job/kustomization.yaml", "components:\n  - ../sidecar\n", "", "native_sidecar"),
    (AGENT, "startupProbe:", "readinessProbe: {}\n          startupProbe:", "probes"),
    (AGENT, "livenessProbe:", "lifecycle:", "probes"),
    (AGENT, "healthcheck, --ready", "healthcheck", "probes"),
    (AGENT, "[lockagent, healthcheck]}", "[lockagent, healthcheck, --ready]}", "probes"),
    (NODE, "path: /livez", "path: /readyz", "probes"),
    (AGENT, "failureThreshold: 300", "failureThreshold: 60", "probes"),
    (AGENT, "failureThreshold: 9", "failureThreshold: 3", "probes"),
    ("sidecar/lockagent.yaml", "shutdown:", "limits: {max_ttl: 90s}\nshutdown:", "probes"),
    (NODE, "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 5", "probes"),
    (NODE, "            terminationGracePeriodSeconds: 1\n", "", "probes"),
    (AGENT, "runAsNonRoot: true", "runAsNonRoot: false", "restricted"),
    (AGENT, "runAsUser: 65532", "runAsUser: 0", "restricted"),
    (AGENT, "runAsUser: 65532", "runAsUser: nobody", "restricted"),
    (AGENT, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "restricted"),
    (AGENT, "allowPrivilegeEscalation: false", "privileged: false", "restricted"),
    (AGENT, "drop: [ALL]", "drop: [NET_RAW]", "restricted"),
    (AGENT, "type: RuntimeDefault", "type: Unconfined", "restricted"),
    (AGENT, "emptyDir: {medium: Memory, sizeLimit: 16Mi}", "hostPath: {path: /x}", "restricted"),
    ("masters/redis-5.yaml", 'master: "5"', 'master: "5", instance: "5"', "sixth_master"),
    (MASTERS, "automountServiceAccountToken: false", "hostNetwork: false", "restricted"),
    (NODE, "add: [CHOWN, FOWNER]", "add: [SYS_ADMIN]", "restricted"),
    (AGENT, "requests: {cpu: 50m, memory: 16Mi}", "requests: {memory: 16Mi}", "resources"),
    (AGENT, "limits: {memory: 128Mi}", "limits: {memory: 64Mi}", "resources"),
    (AGENT, "limits: {memory: 128Mi}", "limits: {cpu: 1, memory: 128Mi}", "resources"),
    (AGENT, "sizeLimit: 16Mi", "sizeLimit: 8Mi", "resources"),
    ("masters/disruption.yaml", "maxUnavailable: 1", "maxUnavailable: 2", "apart"),
    ("masters/disruption.yaml", "app: lockagent-redis", "app: redis", "apart"),
    (MASTERS, "kubernetes.io/hostname", "topology.kubernetes.io/zone", "apart"),
    (MASTERS, "required", "preferred", "apart"),
    (MASTERS, "OnDelete", "RollingUpdate", "apart"),
    (MASTERS, "replicas: 1", "replicas: 2", "apart"),
    (MASTERS, "readinessProbe:", "livenessProbe:", "apart"),
    ("masters/redis-3.yaml", "storage: 4Gi", "storage: 8Gi", "apart"),
    ("masters/redis.conf", "appendfsync always", "appendfsync everysec", "durable"),
    ("masters/redis.conf", "on-rewrite no", "on-rewrite yes", "durable"),
    ("masters/redis.conf", "noeviction", "allkeys-lru", "durable"),
    (MASTERS, "--dir, /data", "--dir, /tmp", "durable"),
    (MASTERS, "redis-server, /etc/redis/redis.conf", "redis-server", "durable"),
    ("masters/redis.conf", "users.acl", "other.acl", "durable"),
    ("secrets.sh", "-@all +ping", "+@all", "durable"),
    ("secrets.sh", "#$hash", "nopass", "durable"),
    ("../acl/full.acl", "resetpass ", "", "durable"),
    ("sidecar/lockagent.yaml", "durable: true", "durable: maybe", "configurations"),
    ("sidecar/lockagent.yaml", "durable: true", "durable: false", "configurations"),
    ("sidecar/lockagent.yaml", "redis-5.lockagent.svc", "redis-6.lockagent.svc", "configurations"),
    ("daemonset/lockagent.yaml", "redis-1.lockagent", "redis-1.other", "configurations"),
    ("sidecar/lockagent.yaml", "password/password", "password/word", "configurations"),
    ("sidecar/lockagent.yaml", "0.0.0.0:9090", "0.0.0.0:9091", "configurations"),
    (AGENT, "medium: Memory, ", "", "configurations"),
    (AGENT, ", optional: true", "", "configurations"),
    (NODE, ", optional: true", "", "configurations"),
    ("daemonset/lockagent.yaml", "unix:/run/lockagent/api", "127.0.0.1:8080", "configurations"),
    (MASTERS, "port: 6379, ", "port: 6380, ", "configurations"),
    ("masters/first-votes.yaml", "backoffLimit: 0", "backoffLimit: 6", "first_votes"),
    ("masters/first-votes.yaml", "trust --new", "trust", "first_votes"),
    ("masters/first-votes.yaml", "configMap: {name: lockagent}", "configMap: {name: redis}",
     "first_votes"),
    ("masters/lockagent.yaml", "redis-5.lockagent.svc", "redis-6.lockagent.svc", "first_votes"),
    ("masters/lockagent.yaml", "durable: true", "durable: false", "first_votes"),
    ("masters/lockagent.yaml", "password/password", "password/word", "first_votes"),
    ("masters/lockagent.yaml", "max_ttl: 60s", "max_ttl: 30s", "first_votes"),
    ("masters/network.yaml", "6379", "6380", "network"),
    ("masters/network.yaml", "app: lockagent-first-votes", "app: any", "network"),
    ("masters/network.yaml", "[Ingress, Egress]", "[Ingress]", "network"),
    ("masters/network.yaml", 'podSelector:\n            matchLabels: {lockagent: "true"}',
     "podSelector: {}", "network"),
    ("masters/network.yaml", "app: lockagent-redis", "app: redis", "network"),
    (AGENT, 'lockagent: "true"', 'lockagent: "no"', "network"),
    ("daemonset/namespace.yaml", '    lockagent: "true"\n', "", "network"),
    ("node-service/namespace.yaml", '    lockagent: "true"\n', "", "network"),
    ("node-service/namespace.yaml", "enforce: restricted", "enforce: baseline", "node_service"),
    ("node-service/service.yaml", "internalTrafficPolicy: Local", "internalTrafficPolicy: Cluster",
     "node_service"),
    ("node-service/service.yaml", "targetPort: api", "targetPort: lockagent", "node_service"),
    ("node-service/service.yaml", "app: lockagent", "app: other", "node_service"),
    ("node-service/daemonset.yaml", "secretName: lockagent-token",
     "secretName: lockagent-token, optional: true", "node_service"),
    ("node-service/daemonset.yaml", "secretName: lockagent-token", "secretName: other",
     "references"),
    ("node-service/daemonset.yaml", "emptyDir: {medium: Memory, sizeLimit: 16Mi}",
     "hostPath: {path: /x}", "restricted"),
    ("node-service/lockagent.yaml", "token_file: /etc/lockagent-token", "token_file: /etc/other",
     "node_service"),
    ("node-service/lockagent.yaml", "unreleased: expire", "unreleased: release", "native_sidecar"),
    ("node-service/lockagent.yaml", "api:\n  token_file: /etc/lockagent-token/token\n", "",
     "configurations"),
    ("monitoring/rules.yaml", "for: 1m", "for: 2m", "monitoring"),
    ("../prometheus/lockagent.rules.yaml", "for: 1m", "for: 2m", "monitoring"),
    ("monitoring/podmonitor.yaml", "port: lockagent", "port: admin", "monitoring"),
    ("monitoring/podmonitor.yaml", "replacement: lockagent", "replacement: agent", "monitoring"),
    ("monitoring/podmonitor.yaml", 'lockagent: "true"', 'app: "app"', "monitoring"),
)  # fmt: skip


def play(lockagent, folder, number, mutant):
    """Returns the error in the mutant's end: nothing, if its check found it."""
    name, old, new, check = mutant
    deploy = pathlib.Path(folder) / str(number)
    for part in ("kubernetes", "acl", "prometheus"):
        shutil.copytree(manifests.TOP / "deploy" / part, deploy / part)
    for path in (
        [deploy / name[3:]] if name.startswith("../") else (deploy / "kubernetes").glob(name)
    ):
        text = path.read_text()
        if old not in text:
            return f"{name}: holds no {old!r}"
        path.write_text(text.replace(old, new))
    try:
        found = list(getattr(manifests, check)(manifests.Tree(lockagent, deploy)))
    except (LookupError, TypeError, ValueError) as error:
        return f"{check} breaks on {new!r} for {old!r} in {name}: {error!r}"
    return None if found else f"{check} does not see {new!r} for {old!r} in {name}"


def main(lockagent):
    failed = manifests.main(lockagent)
    unseen = {check.__name__ for check in manifests.CHECKS} - {mutant[-1] for mutant in MUTANTS}
    assert not unseen, f"no mutant shows that these can fail: {unseen}"
    with tempfile.TemporaryDirectory(prefix="lockagent-manifests-") as folder:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            outcomes = [
                pool.submit(play, lockagent, folder, number, mutant)
                for number, mutant in enumerate(MUTANTS)
            ]
            wrong = [outcome.result() for outcome in outcomes if outcome.result()]
    print(*(f"FAILED {each}" for each in wrong), sep="\n", end="\n" * bool(wrong))
    print(f"{len(MUTANTS) - len(wrong)} passed, {len(wrong)} failed")
    return int(failed or bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
