#!/usr/bin/env bash
# The benchmark: run.sh [--json FILE] [BUILD FOLDER]. README.md beside it says what is measured and how to read it.
#
# ROUNDS (3), SECONDS_EACH (2), CALLERS ("1 16 64"), FAULT_CALLERS ("1 64"), APPENDONLY (no|yes|always), AGENT (another program)
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
read -ra callers_list <<<"${CALLERS-1 16 64}"
read -ra fault_callers_list <<<"${FAULT_CALLERS-1 64}"

watches=()
watch_all() {
    local pid
    watches=(--watch "agent:$agent_pid")
    for pid in "${redis_pids[@]}"; do
        watches+=(--watch "redis:$pid")
    done
}

record() { # record WORD=VALUE... reads a client's line
    local line
    read -r line || fail "no result from: $*"
    echo "$* $line" >>"$dir/results"
}

agent() { # agent SECTION ROUND FENCING CALLERS MASTERS [FAULT...]
    local prefix=fenced- faults=() fault
    [ "$3" = on ] || prefix=plain-
    for fault in "${@:6}"; do
        faults+=(--fault "$fault")
    done
    watch_all
    "$build/tests/bench/load" --port "$agent_port" --prefix "$prefix" --callers "$4" --seconds "$seconds" "${watches[@]}" \
        "${faults[@]}" | record "section=$1" "round=$2" client=agent "fencing=$3" "callers=$4" "masters=$5" || exit 1
}

http() { # http ROUND CALLERS: requests that the agent answers without a master
    watch_all
    "$build/tests/bench/load" --port "$agent_port" --only-http --callers "$2" --seconds "$seconds" "${watches[@]}" |
        record section=http "round=$1" client=http fencing=off "callers=$2" masters=up || exit 1
}

bare() { # bare ROUND FENCING CALLERS
    local fencing=() ports=()
    [ "$2" = off ] || fencing=(--fencing)
    for port in "${redis_ports[@]}"; do
        ports+=(--master "$port")
    done
    watch_all
    "$build/tests/bench/bare" "${ports[@]}" "${fencing[@]}" --scripts "$top/agent/redis" --callers "$3" --seconds "$seconds" \
        "${watches[@]}" | record section=bare "round=$1" client=bare "fencing=$2" "callers=$3" masters=up || exit 1
}

# Agent and bare client take turns at being first, so that a machine that gets slower favours neither.
compare() { # compare ROUND FENCING CALLERS
    if (($1 % 2)); then
        agent bare "$1" "$2" "$3" up
        bare "$@"
    else
        bare "$@"
        agent bare "$1" "$2" "$3" up
    fi
}

fault() { # fault ROUND CALLERS
    agent faults "$1" on "$2" up
    agent faults "$1" on "$2" stopped "STOP:${redis_pids[0]}"
    heal
    agent faults "$1" on "$2" killed "KILL:${redis_pids[1]}"
    heal
    agent faults "$1" on "$2" both "STOP:${redis_pids[0]}" "KILL:${redis_pids[1]}"
    heal
}

open_bench
start_masters
start_agent "${AGENT:-$build/lockagent}"
idle_kib=$(rss_kib "$agent_pid")
echo "five masters on loopback TCP, appendonly $appendonly; $(nproc) cores, load average $(cut -d' ' -f1 /proc/loadavg);" \
    "$rounds rounds of $seconds s"
for ((round = 1; round <= rounds; round++)); do
    for callers in "${callers_list[@]}"; do
        for fencing in on off; do
            compare "$round" "$fencing" "$callers"
        done
        http "$round" "$callers"
    done
    for callers in "${fault_callers_list[@]}"; do
        fault "$round" "$callers"
    done
    echo "round $round of $rounds done"
done
echo "agent: $idle_kib KiB resident before, $(rss_kib "$agent_pid") KiB after"
[ -z "$json" ] || awk -f "$here/json.awk" "$dir/results" >"$json" || fail "cannot write $json"
awk -f "$here/table.awk" "$dir/results"
