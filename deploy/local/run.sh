#!/usr/bin/env bash
# Runs an agent over five Redis masters of its own in the foreground, to try lockagent: run.sh
# LOCKAGENT
#
# LISTEN chooses the address of the API (127.0.0.1:8080). Ctrl-C, SIGTERM, a closed terminal or the
# end of the agent stops all of it and removes its folder; should this script be killed outright,
# the kernel ends what it started.
set -uo pipefail
agent=$1
listen=${LISTEN:-127.0.0.1:8080}
masters=5

say() { # the terminal may be gone when this runs
    printf '%s\n' "$*" 2>/dev/null || true
}

taken() { # taken HOST PORT: a process listens there
    (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null
}

dir=
agent_pid=
redis_pids=()

stop() { # stop SECONDS PID...: asks, waits, and insists; the exit code is that of the last one
    local seconds=$1 pid code=0
    shift
    kill -TERM "$@" 2>/dev/null
    local end=$((SECONDS + seconds))
    for pid in "$@"; do
        while kill -0 "$pid" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
        code=$?
    done
    return "$code"
}

clean_up() {
    local code=$?
    trap '' INT TERM HUP
    if [ -n "$agent_pid" ]; then
        stop 10 "$agent_pid" || code=$?
        [ "$code" -eq 0 ] || say "the agent ended with exit code $code"
    fi
    [ ${#redis_pids[@]} -eq 0 ] || stop 5 "${redis_pids[@]}"
    [ -z "$dir" ] || rm -rf "$dir"
    exit "$code"
}
trap clean_up EXIT
# What it starts lives in sessions of its own, away from Ctrl-C, so that it ends in order: the agent
# first, then the masters.
trap 'exit 0' INT TERM HUP
dir=$(mktemp -d "${TMPDIR:-/tmp}/lockagent-run.XXXXXX") || exit 1

host=${listen%:*}
port=${listen##*:}
if [[ $listen != unix:* ]]; then
    host=${host#[} host=${host%]}
    if taken "$host" "$port"; then
        say "$listen is taken. Choose another address: make run LISTEN=127.0.0.1:8081"
        exit 1
    fi
fi

start_master() { # start_master PORT
    mkdir "$dir/$1"
    setsid setpriv --pdeathsig KILL redis-server --port "$1" --bind 127.0.0.1 \
        --dir "$dir/$1" --logfile "$dir/$1/log" --save '' --appendonly yes --appendfsync always \
        --maxmemory-policy noeviction </dev/null >/dev/null 2>&1 &
    redis_pids+=($!)
}

ready() { # ready PID COMMAND...: the command succeeds within 10 s, while the process lives
    local pid=$1 try
    shift
    for ((try = 0; try < 200; try++)); do
        kill -0 "$pid" 2>/dev/null || return 1
        "$@" >/dev/null 2>&1 && return 0
        sleep 0.05
    done
    return 1
}

ports=()
for ((next = ${REDIS_PORT:-7001}; ${#ports[@]} < masters && next < 65536; next++)); do
    if taken 127.0.0.1 "$next"; then
        say "port $next is taken: trying the next one"
    else
        ports+=("$next")
        start_master "$next"
    fi
done
urls=()
for i in "${!ports[@]}"; do
    if ! ready "${redis_pids[$i]}" redis-cli -e -p "${ports[$i]}" ping; then
        say "the Redis master on port ${ports[$i]} did not start:"
        tail -n 5 "$dir/${ports[$i]}/log" 2>/dev/null
        exit 1
    fi
    urls+=("redis://127.0.0.1:${ports[$i]}")
done

# five masters that share one disk take their time over fsync
cat >"$dir/lockagent.yaml" <<CONF
listen: "$listen"
redis:
  groups:
    main:
      masters: [$(IFS=, && echo "${urls[*]}")]
      durable: true
      node_timeout: 250ms
shutdown: {grace: 500ms}
CONF

# No agent has ever used these masters, so they need not wait for what they may have forgotten.
if ! said=$(setsid setpriv --pdeathsig KILL "$agent" trust --new "$dir/lockagent.yaml" 2>&1); then
    say "the masters do not vote yet: $said"
fi

setsid setpriv --pdeathsig TERM "$agent" serve --config "$dir/lockagent.yaml" </dev/null &
agent_pid=$!
if ! ready "$agent_pid" "$agent" healthcheck --config "$dir/lockagent.yaml"; then
    kill -0 "$agent_pid" 2>/dev/null && say "the agent did not become healthy within 10 s"
    exit 1
fi

url="curl -s http://$listen"
[[ $listen != unix:* ]] || url="curl -s --unix-socket ${listen#unix:} http://localhost"
say "
Five Redis masters on 127.0.0.1, ports ${ports[*]}; configuration in
$dir/lockagent.yaml. In another shell:

  $url/locks/demo -X POST                                    # take a lock: 201 and a token
  $url/locks/demo                                            # who holds it, on which masters
  $url/locks/demo -X PUT    -H 'Lock-Token: TOKEN'           # renew it
  $url/locks/demo -X DELETE -H 'Lock-Token: TOKEN'           # release it
  $url/metrics
  # a cron job needs no agent
  $(realpath "$agent") run -n -c $dir/lockagent.yaml jobs/nightly -- echo done
  # lose a master: nothing changes
  redis-cli -p ${ports[0]} shutdown

Ctrl-C stops everything."
# A closed terminal is told to the leader of its session alone, and where that is make, make tells
# nobody: hence the look at stdin.
terminal=false
[ ! -t 0 ] || terminal=true
mkfifo "$dir/never"
exec {never}<>"$dir/never"
while kill -0 "$agent_pid" 2>/dev/null; do
    read -rt 0.5 -u "$never"
    if $terminal && [ ! -t 0 ]; then
        exit 0
    fi
done
wait "$agent_pid"
code=$?
agent_pid=
say "the agent ended by itself (exit code $code)"
exit "$code"
