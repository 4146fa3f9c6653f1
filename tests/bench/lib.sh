# shellcheck shell=bash
# Starts and stops what run.sh, waiting.sh and profile.sh measure: five Redis masters and agents, in a temporary folder, on free
# loopback ports. Its argument is the build folder. Everything ends by process id when the shell does.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${1:-build-bench}
[[ $build = /* ]] || build=$PWD/$build
masters=5
appendonly=${APPENDONLY:-no} # no, or yes with an fsync each second, or always: an fsync before each answer
dir=
agent_pid= # the last one started
agent_port=
agent_pids=()
agent_ports=()
redis_pids=()
redis_ports=()

fail() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

end_process() { # end_process PID: continues it if it was stopped, asks, waits for 5 s, and insists
    local i
    kill -CONT "$1" 2>/dev/null
    kill -TERM "$1" 2>/dev/null
    for ((i = 0; i < 100; i++)); do
        kill -0 "$1" 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
}

clean_up() {
    local code=$? pid
    trap '' INT TERM HUP
    for pid in "${agent_pids[@]}" "${redis_pids[@]}"; do
        end_process "$pid"
    done
    [ -z "$dir" ] || rm -rf "$dir"
    exit "$code"
}

taken() { # taken PORT: somebody listens there
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}

free_port() { # below the ports that the kernel gives to clients
    local port
    for _ in {1..100}; do
        port=$((20000 + RANDOM % 12000))
        if ! taken "$port"; then
            echo "$port"
            return
        fi
    done
    fail "found no free port"
}

# Sets redis_pids[I] once that very process answers, whoever else may have come to the port meanwhile.
launch_master() { # launch_master I PORT
    local options=(--appendonly no) i
    case $appendonly in
    yes) options=(--appendonly yes --appendfsync everysec) ;;
    always) options=(--appendonly yes --appendfsync always) ;;
    esac
    mkdir -p "$dir/redis-$1"
    redis-server --port "$2" --bind 127.0.0.1 --dir "$dir/redis-$1" --save '' --maxmemory-policy noeviction --daemonize no \
        "${options[@]}" >>"$dir/redis-$1.log" 2>&1 &
    redis_pids[$1]=$!
    disown # its end is no news: it may be killed on purpose
    for ((i = 0; i < 100; i++)); do
        if redis-cli -p "$2" info server 2>/dev/null | grep -q "^process_id:${redis_pids[$1]}[^0-9]*\$"; then
            redis_ports[$1]=$2
            return
        fi
        kill -0 "${redis_pids[$1]}" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

start_masters() {
    local i
    for ((i = 0; i < masters; i++)); do
        launch_master "$i" "$(free_port)" || launch_master "$i" "$(free_port)" || {
            tail -n 5 "$dir/redis-$i.log" >&2
            fail "master $i does not start"
        }
    done
}

# Keys below plain- are locked without fencing, all others with it: one agent serves both, so that they can be compared.
write_config() {
    local urls
    printf -v urls ', redis://127.0.0.1:%s' "${redis_ports[@]}"
    cat >"$dir/lockagent-$agent_port.yaml" <<YAML
listen: 127.0.0.1:$agent_port
redis:
  groups:
    main:
      masters: [${urls#, }]
      durable: true
      guard: ${bench_guard:-on}
policies:
  - match: "plain-*"
    fencing: off
  - match: "fenced-*"
    fencing: on
  - match: "fair-*"
    order: fair
log: {level: warn, format: text}
YAML
}

masters_up() { # how many masters the agent counts as up
    curl -s -m 2 "http://127.0.0.1:$agent_port/metrics" | awk '/^lockagent_master_up\{.*\} 1$/ {n++} END {print n + 0}'
}

wait_for_masters() { # wait_for_masters N
    local i
    for ((i = 0; i < 100; i++)); do
        [ "$(masters_up)" != "$1" ] || return 0
        kill -0 "$agent_pid" 2>/dev/null || break
        sleep 0.05
    done
    tail -n 20 "$dir/agent.log" >&2
    fail "the agent does not come to see $1 masters up"
}

start_agent() { # start_agent PROGRAM
    agent_port=$(free_port)
    write_config
    "$1" serve --config "$dir/lockagent-$agent_port.yaml" >>"$dir/agent.log" 2>&1 &
    agent_pid=$!
    agent_pids+=("$agent_pid")
    agent_ports+=("$agent_port")
    wait_for_masters "$masters"
}

rss_kib() { # rss_kib PID
    awk '/^VmRSS:/ {print $2}' "/proc/$1/status"
}

# What was stopped goes on, what was killed comes back on its port, and the agent has seen it.
heal() {
    local i
    for ((i = 0; i < masters; i++)); do
        if kill -0 "${redis_pids[$i]}" 2>/dev/null; then
            kill -CONT "${redis_pids[$i]}"
        else
            launch_master "$i" "${redis_ports[$i]}" || fail "master $i does not come back"
        fi
    done
    wait_for_masters "$masters"
}

open_bench() {
    local tool said
    case $appendonly in
    no | yes | always) ;;
    *) fail "APPENDONLY is no, yes or always" ;;
    esac
    for tool in redis-server redis-cli curl awk; do
        command -v "$tool" >/dev/null || fail "$tool is missing"
    done
    if [ ! -f "$build/build.ninja" ]; then
        meson setup --buildtype=release "$build" "$top" >/dev/null || fail "cannot configure $build"
    fi
    said=$(ninja -C "$build" lockagent tests/bench/{load,bare,contend,naive,park}) || {
        echo "$said" >&2
        fail "cannot build in $build"
    }
    dir=$(mktemp -d "${TMPDIR:-/tmp}/lockagent-bench.XXXXXX") || exit 1
    trap clean_up EXIT
    trap 'exit 130' INT TERM HUP
}
