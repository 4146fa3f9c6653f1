#!/usr/bin/env bash
# The benchmark of waiting: waiting.sh [--json FILE] [BUILD FOLDER]. README.md beside it says what is measured and how to read it.
#
# ROUNDS (3), SECONDS_EACH (2), CONTENDERS (100), HOLDS ("0 5", ms), PAUSES ("0 10 100", ms), PARKED (1000), REST (10 s),
# AGENT (another program)
set -uo pipefail
json=
if [ "${1:-}" = --json ]; then
    json=${2:?--json needs a file}
    shift 2
fi
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh" "$@"
rounds=${ROUNDS:-3}
seconds=${SECONDS_EACH:-2}
contenders=${CONTENDERS:-100}
parked=${PARKED:-1000}
rest=${REST:-10}
read -ra holds <<<"${HOLDS-0 5}"
read -ra pauses <<<"${PAUSES-0 10 100}"
runs=0

reset_statistics() {
    local port
    for port in "${redis_ports[@]}"; do
        redis-cli -p "$port" config resetstat >/dev/null || fail "a master does not answer"
    done
}

# What clients sent to all masters since then. INFO counts also what scripts call: of the agents' commands only those that are sent
# as such count, and they send no SET outside of a script; `script` commands load, and are not part of a grant.
commands_sent() { # commands_sent NAME|NAME
    local port
    for port in "${redis_ports[@]}"; do
        redis-cli -p "$port" info commandstats || fail "a master does not answer"
    done | awk -F '[_:=,]' -v names="^($1)\$" '/^cmdstat_/ && $2 ~ names { calls += $4 } END { print calls + 0 }'
}

watches=()
watch_all() {
    local pid
    watches=()
    for pid in "${agent_pids[@]}"; do
        watches+=(--watch "agent:$pid")
    done
    for pid in "${redis_pids[@]}"; do
        watches+=(--watch "redis:$pid")
    done
}

# One key for all, and a new one each time, so that no run sees what another one left.
contest() { # contest CLIENT ROUND HOLD COMMANDS PROGRAM [ARGUMENT...]
    local line warmup
    ((++runs))
    warmup=$(awk "BEGIN {print 0.3 + 1.5 * $contenders * $3 / 1000}")
    watch_all
    reset_statistics
    line=$("$build/tests/bench/$5" "${@:6}" --hold "$3" --callers "$contenders" --prefix "${1##*-}-$runs" --seconds "$seconds" \
        --warmup "$warmup" "${watches[@]}") || fail "no result from $1"
    echo "section=contest round=$2 client=$1 hold=$3 callers=$contenders $line evalsha=$(commands_sent evalsha)" \
        "commands=$(commands_sent "$4")" >>"$dir/results"
}

agents() { # agents ROUND HOLD COUNT ORDER
    local ports=() i
    for ((i = 0; i < $3; i++)); do
        ports+=(--port "${agent_ports[$i]}")
    done
    contest "agents-$3-$4" "$1" "$2" 'evalsha|eval|subscribe|unsubscribe|client|info|ping' contend "${ports[@]}"
}

naive() { # naive ROUND HOLD MASTERS PAUSE
    local ports=() i
    for ((i = 0; i < $3; i++)); do
        ports+=(--master "${redis_ports[$i]}")
    done
    contest "naive-$3-$4" "$1" "$2" 'set|evalsha' naive "${ports[@]}" --pause "$4"
}

# One caller alone: its wait is one request of HTTP and one round trip to the masters, on a machine that slept as long as a hold.
free_key() { # free_key ROUND HOLD
    local line
    ((++runs))
    line=$("$build/tests/bench/contend" --port "${agent_ports[0]}" --callers 1 --prefix "free-$runs" --hold "$2" --seconds 1 \
        --warmup 0.3) || fail "no result from contend"
    echo "section=free round=$1 client=agents-1-any hold=$2 callers=1 $line" >>"$dir/results"
}

cpu_ms() { # cpu_ms PID...: ticks are 10 ms
    local pid
    for pid in "$@"; do
        sed 's/.*) //' "/proc/$pid/stat"
    done | awk '{ticks += $12 + $13} END {print ticks * 10}'
}

waiters() { # waiters PORT
    curl -s -m 2 "http://127.0.0.1:$1/metrics" | awk '/^lockagent_waiters / {print $2}'
}

# A key per waiter, held by somebody who is none of the agents: what waiters cost that nothing happens to.
hold_keys_of_parked() {
    local port i
    for port in "${redis_ports[@]}"; do
        for ((i = 0; i < parked; i++)); do
            printf 'SET lock:park-%d somebody PX 300000\r\n' "$i"
        done | redis-cli -p "$port" --pipe >/dev/null || fail "cannot set the keys of the parked"
    done
}

park_agent() {
    local before connected waiting agent_ms redis_ms i
    before=$(rss_kib "$agent_pid")
    coproc park { "$build/tests/bench/park" --port "$agent_port" --callers "$parked"; }
    # shellcheck disable=SC2154 # coproc sets it
    local pid=$park_PID in=${park[1]}
    read -r -u "${park[0]}" connected || fail "park does not come to be connected"
    connected=$(rss_kib "$agent_pid")
    echo >&"$in"
    for ((i = 0; i < 200; i++)); do
        [ "$(waiters "$agent_port")" != "$parked" ] || break
        sleep 0.05
    done
    sleep 2
    waiting=$(rss_kib "$agent_pid")
    reset_statistics
    agent_ms=$(cpu_ms "$agent_pid")
    redis_ms=$(cpu_ms "${redis_pids[@]}")
    sleep "$rest"
    agent_ms=$(($(cpu_ms "$agent_pid") - agent_ms))
    redis_ms=$(($(cpu_ms "${redis_pids[@]}") - redis_ms))
    [ "$(waiters "$agent_port")" = "$parked" ] || fail "not all of the $parked wait"
    echo "section=park round=1 client=agents-1-any callers=$parked rest=$rest before=$before connected=$connected waiting=$waiting" \
        "agent_ms=$agent_ms redis_ms=$redis_ms client_ms=0" \
        "commands=$(commands_sent 'evalsha|eval|subscribe|unsubscribe|client|info|ping')" >>"$dir/results"
    exec {in}>&-
    wait "$pid" || fail "park failed"
}

park_naive() { # park_naive PAUSE
    local line
    reset_statistics
    redis_ms=$(cpu_ms "${redis_pids[0]}")
    line=$("$build/tests/bench/naive" --master "${redis_ports[0]}" --pause "$1" --own-keys --prefix park- --callers "$parked" \
        --warmup 0 --seconds "$rest") || fail "no result from naive"
    redis_ms=$(($(cpu_ms "${redis_pids[0]}") - redis_ms))
    echo "section=park round=1 client=naive-1-$1 callers=$parked rest=$rest agent_ms=0 redis_ms=$redis_ms" \
        "commands=$(commands_sent set) $line" >>"$dir/results"
}

open_bench
start_masters
for _ in 1 2 3; do
    start_agent "${AGENT:-$build/lockagent}"
done
echo "waiting: one key, $contenders callers, five masters on loopback TCP; $(nproc) cores, load average $(cut -d' ' -f1 /proc/loadavg);" \
    "$rounds rounds of $seconds s"
for ((round = 1; round <= rounds; round++)); do
    for hold in "${holds[@]}"; do
        free_key "$round" "$hold"
        agents "$round" "$hold" 1 any
        agents "$round" "$hold" 3 any
        agents "$round" "$hold" 3 fair
        for pause in "${pauses[@]}"; do
            naive "$round" "$hold" 1 "$pause"
            naive "$round" "$hold" 5 "$pause"
        done
    done
    echo "round $round of $rounds done"
done
if ((parked > 0)); then
    start_agent "${AGENT:-$build/lockagent}" # a fresh one, for its memory
    hold_keys_of_parked
    park_agent
    park_naive 10
    park_naive 100
fi
[ -z "$json" ] || awk -f "$here/json.awk" "$dir/results" >"$json" || fail "cannot write $json"
awk -f "$here/waiting.awk" "$dir/results"
