#!/usr/bin/env bash
# Builds what a node needs and Debian has not into BUILD: build.sh BUILD. The kubelet comes from the
# Go module proxy: its go.mod names folders that its module lacks, so that `go install` refuses it.
# It takes about seven minutes on two cores, once.
set -euo pipefail
build=$(realpath -m "$1")
version=1.34.4 libraries=0.34.4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$build"

if [ ! -x "$build/kubelet-$version" ]; then
    echo "building kubelet $version: some minutes"
    work=$(mktemp -d "$build/kubelet-XXXXXX")
    trap 'rm -rf --one-file-system "$work"' EXIT
    module=$(cd "$work" && GOWORK=off GOFLAGS=-mod=mod \
        go mod download -json "k8s.io/kubernetes@v$version" | jq -r .Dir)
    cp -r --no-preserve=mode "$module/." "$work"
    sed -i -E "s#=> ./staging/src/(k8s.io/[a-z0-9-]+)#=> \1 v$libraries#" "$work/go.mod"
    (cd "$work" && CGO_ENABLED=0 GOWORK=off GOFLAGS=-mod=mod go build \
        -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=v$version" \
        -o "$build/kubelet-$version" ./cmd/kubelet)
fi
ln -sf "kubelet-$version" "$build/kubelet"
(cd "$here/.." && go build -mod=readonly -o "$build/kustomize" sigs.k8s.io/kustomize/kustomize/v5)
gcc -O2 -static -o "$build/pause" "$here/pause.c"
