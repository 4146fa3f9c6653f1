#!/usr/bin/env bash
# The sidecar of deploy/kubernetes on a real kubelet: run.sh TOOLS LOCKAGENT-IMAGE CURL-IMAGE.
#
# TOOLS has kubelet, pause and kustomize. containerd and a kubelet without an API server run in
# namespaces of their own, with their own /var and /run; static pods and cases.py do the rest. All
# of it ends with this script, however that ends. As root; the last line is `N passed, N failed`.
set -euo pipefail
tools=$(realpath "$1") image=$2 curl=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=lockagent-node-$$
state=$(mktemp -d "$tools/node-XXXXXX") # a real disk: containerd lays overlayfs on it

# What this machine has: mounts, links, and cgroups.
traces() {
    awk '{print $2}' /proc/mounts | sort
    ip -o link | awk '{print $2}'
    find /sys/fs/cgroup -type d -name 'lockagent-node-*'
}

cgroups() { # those of ours, the innermost first
    find /sys/fs/cgroup -depth -type d -path "*/$name*" 2>/dev/null || true
}

node=
finish() {
    [ -z "$node" ] || kill -KILL "$node" 2>/dev/null || true
    [ -z "$node" ] || wait "$node" 2>/dev/null || true
    local left
    for _ in $(seq 50); do # until the last process of a cgroup is reaped
        left=$(cgroups)
        [ -n "$left" ] || break
        xargs -r rmdir 2>/dev/null <<<"$left" || true
        sleep 0.1
    done
    rm -rf --one-file-system "$state"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

before=$(traces)
mkdir -p "$state"/{manifests,images}
tar -C "$tools" -c pause | docker import -c 'ENTRYPOINT ["/pause"]' - localhost/pause:1 >/dev/null
docker save -o "$state/images/all.tar" localhost/pause:1 "$image" "$curl"

# A cgroup of its own in every hierarchy, which the kubelet takes for the root.
enter_cgroups() {
    local hierarchy own
    if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
        mkdir "/sys/fs/cgroup/$name"
        echo "$BASHPID" >"/sys/fs/cgroup/$name/cgroup.procs"
        return
    fi
    for hierarchy in /sys/fs/cgroup/*/; do
        own=$hierarchy$name
        mkdir "$own"
        if [ -e "$own/cpuset.cpus" ]; then
            cat "${hierarchy}cpuset.cpus" >"$own/cpuset.cpus"
            cat "${hierarchy}cpuset.mems" >"$own/cpuset.mems"
        fi
        echo "$BASHPID" >"$own/cgroup.procs"
    done
}
(
    enter_cgroups
    exec unshare --mount --net --pid --fork --ipc --uts --cgroup --mount-proc --kill-child \
        "$here/inside.sh" "$tools" "$state" "$image" "$curl"
) &
node=$!
failed=0
wait "$node" || failed=1
node=
finish
after=$(traces)
if [ "$before" != "$after" ]; then
    echo "FAILED  something is left behind:"
    diff <(echo "$before") <(echo "$after") || true
    failed=1
fi
exit "$failed"
