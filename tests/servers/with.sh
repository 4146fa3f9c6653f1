#!/usr/bin/env bash
# Runs a command in which `redis-server` is another server: with.sh SERVER COMMAND...
set -euo pipefail
server=$(realpath "$1")
shift
[ -x "$server" ] || {
    echo "with.sh: $server is no program" >&2
    exit 2
}
first_in_path=$(mktemp -d)
trap 'rm -rf "$first_in_path"' EXIT
ln -s "$server" "$first_in_path/redis-server"
PATH=$first_in_path:$PATH "$@"
