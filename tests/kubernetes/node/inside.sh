#!/usr/bin/env bash
# The node, in namespaces that run.sh has made: inside.sh TOOLS STATE LOCKAGENT-IMAGE CURL-IMAGE.
set -euo pipefail
tools=$1 state=$2 image=$3 curl=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# ---- files

mount --make-rprivate /
mkdir -p "$state"/{var/lib,var/log,var/tmp,sysctl}
mount --bind "$state/var" /var
mount -t tmpfs -o mode=755 tmpfs /run
# The kubelet sets these of the whole machine: it writes into files of ours.
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    [ -e "/proc/sys/$name" ] || continue
    cat "/proc/sys/$name" >"$state/sysctl/${name//\//.}"
    mount --bind "$state/sysctl/${name//\//.}" "/proc/sys/$name"
done

# ---- cgroups: what is mounted anew shows ours as the root

if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    mkdir /sys/fs/cgroup/init # controllers can be handed on where no process is
    mapfile -t pids </sys/fs/cgroup/cgroup.procs
    for pid in "${pids[@]}"; do
        echo "$pid" >/sys/fs/cgroup/init/cgroup.procs || true
    done
else
    # Those that are mounted, whatever they are called here.
    mapfile -t mounts < <(awk '$3 == "cgroup" {print $2 " " $4}' /proc/mounts)
    mount -t tmpfs tmpfs /sys/fs/cgroup
    for each in "${mounts[@]}"; do
        folder=${each% *} options=${each#* }
        kept=$(tr , '\n' <<<"$options" | grep -vE '^(rw|relatime|nosuid|nodev|noexec|xattr)$' |
            paste -sd ,)
        [[ $kept != name=* ]] || kept=none,$kept
        mkdir -p "$folder"
        mount -t cgroup -o "$kept" cgroup "$folder"
    done
fi

# ---- the network: loopback, and a bridge without any port for the node's own address

ip link set lo up
ip link add node0 type bridge
ip address add 10.88.0.1/24 dev node0
ip link set node0 up
ip route add default via 10.88.0.2
hostname node1

# ---- containerd and the kubelet

cat >"$state/containerd.toml" <<END
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
END
cat >"$state/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: $state/manifests
fileCheckFrequency: 1s
syncFrequency: 2s
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
readOnlyPort: 10255
address: 127.0.0.1
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
evictionHard: {memory.available: "1Mi", nodefs.available: "0%", imagefs.available: "0%"}
END
containerd --config "$state/containerd.toml" >"$state/containerd.log" 2>&1 &
for _ in $(seq 100); do
    ctr version >/dev/null 2>&1 && break
    sleep 0.1
done
ctr -n k8s.io images import "$state/images/all.tar" >/dev/null
rm "$state/images/all.tar"
"$tools/kubelet" --config "$state/kubelet.yaml" --node-ip 10.88.0.1 --hostname-override node1 \
    >"$state/kubelet.log" 2>&1 &
code=0
"$here/cases.py" "$tools/kustomize" "$state" "$image" "$curl" || code=$?
[ "$code" -eq 0 ] ||
    grep -hE '^E|level=error' "$state/kubelet.log" "$state/containerd.log" | tail -n 12
exit "$code"
