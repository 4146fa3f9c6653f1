#!/usr/bin/env bash
# Builds kustomize and the strict reader of this folder below BUILD, and renders deploy/kubernetes
# with them: render.sh BUILD. Without Go, or where its modules can not be had, it skips with a word.
set -euo pipefail
build=$(realpath -m "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"

skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed"
    exit 0
}
command -v go >/dev/null || skip "no Go here"
go mod download || skip "the modules of tests/kubernetes/go.sum can not be had"
mkdir -p "$build"
go build -mod=readonly -o "$build/kustomize" sigs.k8s.io/kustomize/kustomize/v5
go build -mod=readonly -o "$build/strict" .
exec ./render.py "$build/kustomize" "$build/strict"
