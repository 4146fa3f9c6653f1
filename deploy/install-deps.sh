#!/usr/bin/env bash
# Installs the Debian packages that a piece of work needs and that are missing: install-deps.sh
# build|run|test|lint|fuzz|coverage|instructions|prove|page|compose|kubernetes|node|
# dist ...
#
# A package counts as there when what it is wanted for is there, however it came; then nothing is
# done and nothing is said. No service is started or enabled by a package that comes in here.
set -euo pipefail

declare -A packages
# package : what shows that it is there (a command, pc: a pkg-config module, py: a module of
# Debian's Python, file: a file, or clang's libfuzzer)
packages[build]="build-essential:make build-essential:cc pkg-config:pkg-config
       meson:meson ninja-build:ninja python3:python3 libhiredis-dev:pc:hiredis
       libmicrohttpd-dev:pc:libmicrohttpd libyaml-dev:pc:yaml-0.1 libuv1-dev:pc:libuv
       libjansson-dev:pc:jansson libssl-dev:pc:openssl"
packages[run]="${packages[build]} redis-server:redis-server redis-tools:redis-cli"
packages[test]="${packages[run]} libcriterion-dev:pc:criterion libcurl4-openssl-dev:pc:libcurl
       prometheus:promtool prometheus-alertmanager:prometheus-alertmanager curl:curl jq:jq
       iproute2:ip liblua5.1-0-dev:pc:lua5.1 openssl:openssl
       python3-redis:py:redis python3-yaml:py:yaml sqlite3:sqlite3"
packages[lint]="${packages[test]} clang:clang clang-format:clang-format clang-tidy:clang-tidy
       black:black git:git shellcheck:shellcheck"
clang_release=14 # of Debian 12
! grep -qs '^VERSION_ID="13"' /etc/os-release || clang_release=19
packages[fuzz]="${packages[test]} clang:clang libclang-rt-$clang_release-dev:libfuzzer"
packages[coverage]="${packages[test]} gcovr:gcovr"
packages[instructions]="${packages[test]} valgrind:valgrind"
packages[prove]="${packages[build]} frama-c-base:frama-c"
packages[page]="chromium:chromium pngquant:pngquant
       fonts-dejavu-core:file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
packages[compose]="docker.io:docker docker-compose:docker-compose debootstrap:debootstrap
       prometheus:promtool curl:curl jq:jq"
packages[deb]="${packages[build]} debhelper:dh dpkg-dev:dpkg-buildpackage lintian:lintian
       debootstrap:debootstrap procps:pgrep redis-server:redis-server redis-tools:redis-cli
       curl:curl"
packages[dist]="git:git xz-utils:xz"
packages[compose-images]="docker.io:docker debootstrap:debootstrap"
packages[kubernetes]="${packages[build]} python3-yaml:py:yaml"
packages[node]="${packages[kubernetes]} docker.io:docker containerd:ctr runc:runc
       debootstrap:debootstrap redis-server:redis-server redis-tools:redis-cli iproute2:ip jq:jq"
packages[up]="docker.io:docker docker-compose:docker-compose"

is_there() { # is_there COMMAND|pc:MODULE|py:MODULE|file:PATH|libfuzzer
    case $1 in
    file:*) [ -e "${1#file:}" ] ;;
    py:*) /usr/bin/python3 -c "import ${1#py:}" 2>/dev/null ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    libfuzzer)
        compgen -G "$(clang -print-resource-dir 2>/dev/null)/lib/*/libclang_rt.fuzzer*.a" >/dev/null
        ;;
    docker-compose)
        command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1
        ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

PATH=$PATH:/usr/sbin:/sbin
missing=()
for work in "$@"; do
    for pair in ${packages[$work]}; do
        is_there "${pair#*:}" || missing+=("${pair%%:*}")
    done
done
[ ${#missing[@]} -gt 0 ] || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)

if ! command -v apt-get >/dev/null; then
    echo "missing here (by their names in Debian): ${missing[*]}" >&2
    exit 1
fi
root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "missing, and neither root nor sudo to install them: ${missing[*]}" >&2
        exit 1
    fi
    root=(sudo)
fi

# Debian starts a service as soon as its package is installed, unless this file forbids it.
policy=/usr/sbin/policy-rc.d
log=$(mktemp)
made_policy=false
clean_up() {
    rm -f "$log"
    ! $made_policy || "${root[@]}" rm -f "$policy"
}
trap clean_up EXIT
if [ ! -e "$policy" ]; then
    made_policy=true
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" >/dev/null
    "${root[@]}" chmod 755 "$policy"
fi

apt_get() {
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null >>"$log" 2>&1
}

echo "installing with apt: ${missing[*]}"
if ! { apt_get update && apt_get install -y --no-install-recommends "${missing[@]}"; }; then
    tail -n 30 "$log" >&2
    exit 1
fi
if command -v systemctl >/dev/null; then
    for service in redis-server prometheus prometheus-alertmanager; do
        [[ " ${missing[*]} " != *" $service "* ]] ||
            "${root[@]}" systemctl disable --quiet "$service" 2>/dev/null || true
    done
fi
