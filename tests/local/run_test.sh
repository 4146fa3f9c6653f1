#!/usr/bin/env bash
# Tries `make run` as its user would, and that it leaves nothing behind however it ends: run_test.sh
# TOP LOCKAGENT
set -uo pipefail
run=$1/deploy/local/run.sh agent=$2
passed=0 failed=0
work=$(mktemp -d)
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
leader=

clean_up() {
    [ -z "$leader" ] || kill -TERM -- "-$leader" 2>/dev/null
    rm -rf "$work"
}
trap clean_up EXIT

expect() { # expect WHAT WANTED GOT
    if [ "$2" = "$3" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s: wanted %s, got %s\n' "$1" "$2" "$3"
        [ ! -s "$work/out" ] || sed 's/^/    | /' "$work/out"
    fi
}

free_port() { # of 20 tries in the range where no system gives out ports by itself
    local port
    for _ in {1..20}; do
        port=$((20000 + RANDOM % 8000))
        (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
    done
    echo "$port"
}

# launch: run.sh in a session and process group of its own, as a terminal would have it; sets
# `leader` and `url`
launch() {
    local port
    port=$(free_port)
    url=http://127.0.0.1:$port/locks/demo
    metrics=http://127.0.0.1:$port/metrics
    rm -f "$work/out"
    # A background job of a script ignores SIGINT, and so would all that it starts.
    LISTEN=127.0.0.1:$port REDIS_PORT=$(free_port) \
        setsid env --default-signal=INT,QUIT "$run" "$agent" >"$work/out" 2>&1 </dev/null &
    leader=$!
    for ((try = 0; try < 300; try++)); do
        grep -qs 'Ctrl-C stops everything' "$work/out" && return
        kill -0 "$leader" 2>/dev/null || return
        sleep 0.1
    done
}

# start: launch, with other ports where somebody was faster to take one
start() {
    for ((launched = 1; launched <= 5; launched++)); do
        launch
        grep -qsE 'Address already in use|is taken. Choose another' "$work/out" || return
        wait "$leader"
    done
}

# what run.sh has started: it is named after the folder, or lives in it (redis-server rewrites its
# command line)
processes() {
    local pid line
    for pid in /proc/[0-9]*; do
        line=$(tr '\0' ' ' <"$pid/cmdline")
        if [[ $line == *"$TMPDIR/"* || $(readlink "$pid/cwd") == "$TMPDIR/"* ]]; then
            echo "${pid#/proc/} $line"
        fi
    done 2>/dev/null # processes come and go meanwhile
}

ends() { # ends WHAT CODE: run.sh ends by itself from here on, and nothing is left
    local code
    for ((try = 0; try < 300; try++)); do
        kill -0 "$leader" 2>/dev/null || break
        sleep 0.1
    done
    [ "$try" -lt 300 ] || kill -KILL "$leader"
    wait "$leader" 2>/dev/null
    code=$?
    leader=
    expect "$1: exit code" "$2" "$code"
    expect "$1: processes left" "" "$(processes)"
    expect "$1: files left" "" "$(ls -A "$TMPDIR")"
}

request() { # request CURL-ARGUMENT...: the status; headers and body stay in files
    curl -s -m 10 -o "$work/body" -D "$work/headers" -w '%{http_code}' "$@"
}

start
expect "five masters run" 5 "$(grep -c redis-server <<<"$(processes)")"
expect "take" 201 "$(request -X POST "$url")"
token=$(jq -r .token "$work/body")
expect "the answer" true \
    "$(jq '(.token | length > 20) and .fencing_token > 0 and .valid_for_ms > 0' "$work/body")"
expect "take again" 409 "$(request -X POST "$url")"
expect "Retry-After" 1 "$(grep -ciE '^retry-after: [0-9]+' "$work/headers")"
expect "renew" 200 "$(request -X PUT -H "Lock-Token: $token" "$url")"
expect "release" 204 "$(request -X DELETE -H "Lock-Token: $token" "$url")"
expect "metrics" "" "$(curl -s -m 10 "$metrics" | promtool check metrics 2>&1)"
taken=$(LISTEN=${url#http://} && LISTEN=${LISTEN%/locks/demo} timeout 60 "$run" "$agent" 2>&1)
expect "the address is taken: exit code" 1 $?
expect "the address is taken" 1 "$(grep -c 'is taken. Choose another address' <<<"$taken")"
kill -INT -- "-$leader"
ends "Ctrl-C" 0

start
kill -TERM "$leader"
ends "SIGTERM" 0

start
kill -HUP -- "-$leader"
ends "a closed terminal" 0

start
kill -KILL "$(processes | awk '/ serve --config / {print $1}')"
ends "the agent dies" 137

mkdir "$work/bin"
printf '#!/bin/sh\nexit 1\n' >"$work/bin/redis-server"
chmod +x "$work/bin/redis-server"
PATH=$work/bin:$PATH start
ends "a master does not start" 1

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
