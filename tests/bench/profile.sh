#!/usr/bin/env bash
# Where the agent's cycles go under load: profile.sh [BUILD FOLDER]. Prints perf's top symbols and the system calls per pair.
#
# CALLERS (64), SECONDS_EACH (5), FENCING (on|off), APPENDONLY (no|yes|always), AGENT (another program), LINES (40)
set -uo pipefail
# shellcheck source=tests/bench/lib.sh
. "$(dirname "$0")/lib.sh" "$@"
callers=${CALLERS:-64}
seconds=${SECONDS_EACH:-5}
prefix=fenced-
[ "${FENCING:-on}" = on ] || prefix=plain-

load() { # load SECONDS
    "$build/tests/bench/load" --port "$agent_port" --prefix "$prefix" --callers "$callers" --seconds "$1" --warmup 0.5 \
        --watch "agent:$agent_pid"
}

# Virtual machines often have no cycle counter: then the clock says where the time goes, which is nearly the same.
event() {
    if perf stat -e cycles true 2>&1 | grep -q 'not supported'; then
        echo cpu-clock
    else
        echo cycles
    fi
}

top_lines() { # top_lines SORT LINES
    echo
    echo "by $1:"
    perf report -i "$dir/perf.data" --stdio --no-children --sort "$1" -g none 2>/dev/null | grep -v '^#' | grep -v '^$' |
        head -n "$2"
}

command -v perf >/dev/null || fail "perf is missing (Debian: linux-perf)"
open_bench
start_masters
start_agent "${AGENT:-$build/lockagent}"
load "$(awk "BEGIN {print $seconds + 1}")" >"$dir/line" &
load_pid=$!
sleep 1
perf record -q -e "$(event)" -F 2999 -g -p "$agent_pid" -o "$dir/perf.data" -- sleep "$seconds" || fail "perf can not record here"
wait "$load_pid" || fail "the load generator failed"
tr ' ' '\n' <"$dir/line"
top_lines dso 12
top_lines dso,symbol "${LINES:-40}"
