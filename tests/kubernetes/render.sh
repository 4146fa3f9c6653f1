#!/usr/bin/env bash
# Builds kustomize, helm and the strict reader of this folder below BUILD, and looks at
# deploy/kubernetes and deploy/helm with them: render.sh BUILD LOCKAGENT [--write]. Without Go, or
# where its modules can not be had, it skips with a word; so it does with SHORT=1 where building
# takes longer than three minutes.
set -euo pipefail
build=$(realpath -m "$1")
lockagent=$(realpath "$2")
cd "$(dirname "${BASH_SOURCE[0]}")"
helm=3.17.4

skip() {
    echo "skipped: $*"
    echo "0 passed, 0 failed"
    exit 0
}
command -v go >/dev/null || skip "no Go here"
mkdir -p "$build"
limit=${SHORT:+180}
in_time() { # in_time COMMAND...: 124 where the limit is over
    timeout "${limit:-0}" "$@"
}
in_time go mod download || skip "the modules of go.sum can not be had"
for made in kustomize=sigs.k8s.io/kustomize/kustomize/v5 strict=.; do
    in_time go build -mod=readonly -o "$build/${made%%=*}" "${made#*=}" || {
        [ $? -eq 124 ] || exit 1
        skip "building took longer than $limit s"
    }
done
if [ ! -x "$build/helm-$helm" ]; then # its modules are of other versions than those above
    GOBIN=$build in_time go install "helm.sh/helm/v3/cmd/helm@v$helm" || skip "helm can not be had"
    mv "$build/helm" "$build/helm-$helm"
fi
ln -sf "helm-$helm" "$build/helm"
exec ./run.py "$build" "$lockagent" "${@:3}"
