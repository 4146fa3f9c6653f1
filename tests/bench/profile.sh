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

# A sample in the kernel belongs to the library function that made the system call, any other one to its library or program.
by_system_call() {
    echo
    echo "by system call, or library outside of one:"
    perf script -i "$dir/perf.data" -F ip,sym,dso 2>/dev/null | awk '
        function finish() {
            if (user != "")
                count[user]++
            else if (kernel)
                count["(interrupts)"]++
            total += user != "" || kernel
            user = ""
            kernel = 0
        }
        NF == 0 { finish(); next }
        user != "" { next }
        /kernel.kallsyms/ { kernel = 1; next }
        {
            user = kernel ? $2 : $NF
            if (kernel)
                gsub(/__GI_|__libc_|^_+|@.*$/, "", user)
            else
                gsub(/.*\/|[()]/, "", user)
            user = (kernel ? "in " : "outside: ") user
        }
        END { finish(); for (name in count) printf "%6.2f%%  %s\n", 100 * count[name] / total, name }' |
        sort -rn | head -n 20
}

# A second, shorter run, because tracing slows the agent down; how often each call is made per pair depends on that only a little.
count_system_calls() {
    echo
    echo "system calls per pair:"
    perf trace -s -p "$agent_pid" -o "$dir/trace" -- "$build/tests/bench/load" --port "$agent_port" --prefix "$prefix" \
        --callers "$callers" --warmup 0 --seconds 2 >"$dir/line" 2>/dev/null || {
        echo "perf trace does not work here"
        return
    }
    awk -v pairs="$(sed 's/^pairs=\([0-9]*\) .*/\1/' "$dir/line")" '
        $1 ~ /^[a-z_0-9]+$/ && $2 ~ /^[0-9]+$/ { calls[$1] += $2 }
        END { for (name in calls) if (pairs) printf "%8.3f  %s\n", calls[name] / pairs, name }' "$dir/trace" |
        sort -rn | head -n 12
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
top_lines symbol,dso "${LINES:-40}"
by_system_call
count_system_calls
