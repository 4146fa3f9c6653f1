#!/usr/bin/env bash
# Builds and tests the source archive on fresh Debian systems, in containers without git: check.sh
# FOLDER, which has the archive and its checksums. Each container starts from a minimal system, and
# the archive's own `make test` installs the missing packages. At last images.sh compares the images
# of the archive and of a clone. Needs a Docker daemon, and root if no registry gives Debian's
# images.
#
# ONLY="bookworm trixie images": these parts. SUITE=unit: that suite of tests instead of all. The
# output of a part is in FOLDER/PART.log. The last line is `N passed, N failed`.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
folder=$(cd "$1" && pwd)
read -ra parts <<<"${ONLY:-bookworm trixie images}"
passed=0 failed=0
container=
trap '[ -z "$container" ] || docker rm -f "$container" >/dev/null 2>&1 || true' EXIT

if ! docker info >/dev/null 2>&1; then
    echo "skipped: no Docker daemon can be reached"
    echo "0 passed, 0 failed"
    exit 0
fi

# shellcheck disable=SC2016 # the shell in the container expands it
inside='set -e
cd /tmp
(cd /archive && sha256sum --check --strict SHA256SUMS)
apt-get -q update && apt-get -yq install --no-install-recommends make xz-utils
tar -xf /archive/lockagent-*.tar.xz
cd lockagent-*/
! command -v git
if [ -z "$1" ]; then
    exec make test
fi
deploy/install-deps.sh test
meson setup build-test
ninja -C build-test --quiet
exec tests/run build-test --suite "$1"'

try() { # try RELEASE
    "$top/deploy/compose/images.sh" make "debian:$1-slim" || return 1
    container=lockagent-dist-$1-$$
    docker run --rm --init --name "$container" -v "$folder:/archive:ro" "debian:$1-slim" \
        bash -c "$inside" bash "${SUITE:-}"
    local code=$?
    container=
    return "$code"
}

for part in "${parts[@]}"; do
    good=true started=$SECONDS log=$folder/$part.log what="$part, ${SUITE:-all tests}"
    set +e
    if [ "$part" = images ]; then
        what=images
        "$top/tests/dist/images.sh" >"$log" 2>&1 </dev/null || good=false
    else
        try "$part" >"$log" 2>&1 </dev/null || good=false
    fi
    set -e
    closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1) ||
        closing="0 passed, 0 failed"
    read -r more_passed _ more_failed _ <<<"$closing"
    if ! $good && [ "$more_failed" -eq 0 ]; then
        more_failed=1
    fi
    if [ "$((more_passed + more_failed))" -eq 0 ]; then
        more_failed=1 # no test has run
    fi
    echo "$what: $more_passed passed, $more_failed failed," \
        "$((SECONDS - started)) s"
    if [ "$more_failed" -gt 0 ]; then
        grep -aE '^\[(FAIL|----)\]|^FAILED|( FAIL|TIMEOUT) +[0-9]|: error: ' "$log" |
            head -n 40 || true
        tail -n 20 "$log"
    fi
    passed=$((passed + more_passed)) failed=$((failed + more_failed))
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
