#!/usr/bin/env bash
# Brings up docker-compose.yml and uses it as an app would: locks, two masters lost, a third, and
# all of them back.
#
# Runs under a project name of its own and takes everything down again, also when it fails. Prints
# `N passed, N failed` at the end.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
passed=0 failed=0

finish() { # finish CODE
    echo "$passed passed, $failed failed"
    exit "$1"
}

if ! docker info >/dev/null 2>&1; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "compose: this user reaches no docker daemon: the smoke test did not run"
        finish 0
    fi
    echo "compose: starting the docker daemon"
    { systemctl start docker || service docker start; } >/dev/null 2>&1
    for ((try = 0; try < 60; try++)); do
        docker info >/dev/null 2>&1 && break
        sleep 0.5
    done
    if ! docker info >/dev/null 2>&1; then
        echo "compose: no docker daemon, and none could be started"
        failed=1
        finish 1
    fi
fi

compose_command=(docker-compose)
command -v docker-compose >/dev/null || compose_command=(docker compose)
export ADMIN_PORT=0 # any free one: somebody may be using the composition on this machine
project=lockagent-smoke-$$
log=$(mktemp)
compose() {
    "${compose_command[@]}" -p "$project" "$@" 2>"$log"
}
quietly() { # quietly WHAT COMMAND...
    local what=$1
    shift
    if "$@" >"$log.out" 2>&1; then
        passed=$((passed + 1))
        return
    fi
    echo "FAILED: $what"
    cat "$log" "$log.out" 2>/dev/null | tail -n 60
    failed=$((failed + 1))
    return 1
}
down() { # what stays are the images of the build's stages, docker's cache for the next build
    compose down -v --remove-orphans --rmi local -t 2 >/dev/null
}
clean_up() {
    trap '' INT TERM HUP
    minimal_down
    down
    rm -f "$log" "$log.out"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

expect() { # expect WHAT WANTED GOT: what is wanted is a pattern
    # shellcheck disable=SC2053
    if [[ $3 == $2 ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED: $1: wanted $2, got $3"
    fi
}

app() { # app CURL-ARGUMENT...: the body, then a line with the status
    compose exec -T app curl -s -m 10 -w '\n%{http_code}\n' "$@"
}
status() { tail -n 1 <<<"$1"; }
body() { head -n 1 <<<"$1"; }

api=localhost:8080
acquire() { # acquire KEY: sets `answer` and `token`
    answer=$(app -X POST -H 'Accept: text/plain' "$api/locks/$1")
    token=$(body "$answer")
}
works() { # works WHAT KEY: acquire, renew, release
    acquire "$2"
    expect "$1: acquire" 201 "$(status "$answer")"
    expect "$1: renew" 200 "$(status "$(app -X PUT -H "Lock-Token: $token" "$api/locks/$2")")"
    expect "$1: release" 204 "$(status "$(app -X DELETE -H "Lock-Token: $token" "$api/locks/$2")")"
}

# shellcheck source=tests/compose/image.sh
. tests/compose/image.sh

quietly "the base images" deploy/compose/images.sh make || finish 1
quietly "build" compose build || finish 1
quietly "up, and healthy" compose up -d --no-build || finish 1
first_votes() { # first_votes WHAT SAID: of the service that runs once, before the agent
    expect "$1: the first votes" "*main: $2*" "$(compose logs --no-color --tail 1 first-votes)"
}
first_votes "up" "new: all 5 masters vote now"
for ((try = 0; try < 60; try++)); do
    [ "$(status "$(app "$api/readyz")")" = 200 ] && break
    sleep 0.5
done

expect "the agent does not run as root" "65532" "$(compose exec -T lockagent id -u | tr -d '\r')"
works "five masters" smoke/five
acquire smoke/held
held=$token
expect "held: the first" 201 "$(status "$answer")"
second=$(app -X POST "$api/locks/smoke/held")
expect "held: the second" 409 "$(status "$second")"
expect "held: the second's code" '*"lock_held"*' "$(body "$second")"

compose stop -t 2 redis1 redis2
works "three of five masters" smoke/three
expect "three of five masters: a lock from before" 200 \
    "$(status "$(app -X PUT -H "Lock-Token: $held" "$api/locks/smoke/held")")"

compose stop -t 2 redis3
refused=$(app -X POST "$api/locks/smoke/two")
expect "two of five masters" 503 "$(status "$refused")"
expect "two of five masters: code" '*"quorum_unavailable"*' "$(body "$refused")"

compose start redis1 redis2 redis3 >/dev/null
for ((try = 0; try < 40; try++)); do
    [ "$(status "$(app "$api/readyz")")" = 200 ] && break
    sleep 0.25
done
works "all masters back" smoke/back
quietly "up once more" compose up -d --no-build
first_votes "up once more" "all masters vote already"
works "up once more" smoke/again

agent_image=$(docker inspect --format '{{.Image}}' "$(compose ps -q lockagent)")
quietly "build, minimal" docker build -q --target minimal -t "$project-minimal" . || finish 1
images_say_what_they_are "$agent_image" "$project-minimal"
minimal_image_has_nothing_else "$project-minimal"
minimal_image_loads_openssl "$project-minimal"
minimal_image_says_what_it_cannot_read "$project-minimal"
minimal_image_locks "$project-minimal"

metrics=$(curl -s -m 5 "http://$(compose port lockagent 9090)/metrics")
expect "metrics on the admin listener" '*lockagent_build_info*' "$metrics"
if command -v promtool >/dev/null; then
    expect "promtool check metrics" "" "$(promtool check metrics <<<"$metrics" 2>&1)"
fi
expect "no lock calls on the admin listener" 404 \
    "$(curl -s -m 5 -o /dev/null -w '%{http_code}' -X POST \
        "http://$(compose port lockagent 9090)/locks/smoke/admin")"

if [ "$failed" -gt 0 ]; then
    echo "--- the agent said:"
    compose logs --no-color --tail 60 lockagent
fi
down
mine="label=com.docker.compose.project=$project"
expect "nothing is left behind" "" \
    "$(docker ps -aq --filter "$mine"; docker volume ls -q --filter "$mine";
        docker network ls -q --filter "$mine")"

[ "$failed" -eq 0 ]
finish $?
