#!/usr/bin/env bash
# Tests Debian's package: run.sh FOLDER, where it is built. It is built a second time elsewhere,
# which must give the same bytes. Then a system of its own boots, with systemd as its process 1 and
# three masters in its network. There the package is installed, configured with a password that
# only root can read, started, reloaded, killed, upgraded, removed and purged. Needs root. The last
# line is `N passed, N failed`.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/source.sh
. "$top/deploy/source.sh"
passed=0 failed=0
work=$(mktemp -d)
system=$work/system
cgroup=$work/cgroup/lockagent-deb-$$
outer= # the process that waits for the system's process 1
init=  # that process 1, once it runs
second= # the second build, while it runs: a process group
making= # debootstrap, while it runs: a process group

clean_up() {
    local group mounted
    for group in $second $making; do
        { kill -TERM -- "-$group" && wait "$group"; } 2>/dev/null || true
    done
    [ -z "$init" ] || kill -KILL "$init" || true # all of the system's processes end with it
    [ -z "$outer" ] || wait "$outer" 2>/dev/null || true
    if mountpoint -q "$work/cgroup"; then
        [ ! -d "$cgroup" ] || find "$cgroup" -depth -type d -exec rmdir {} +
        umount "$work/cgroup"
    fi
    for mounted in "$system/proc" "$system/sys"; do # of debootstrap
        ! mountpoint -q "$mounted" || umount "$mounted"
    done
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        [ -z "$init" ] || inside journalctl -q -n 10 -o cat -u lockagent >>"$work/log" 2>&1 || true
        tail -n 20 "$work/log" | sed 's/^/       /'
    fi
}

within() { # within SECONDS COMMAND...: until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}

# Builds the package of a copy of the tree: in another folder, with older files, and as a user with
# another umask, time zone and home.
build_again() {
    mkdir -p "$work/again/tree"
    cd "$top"
    ! is_clone || in_clone clone -q --no-checkout "$top" "$work/again/tree"
    source_files |
        tar --null -T - --mtime=2001-02-03 --mode=go= -cf - | tar -xpf - -C "$work/again/tree"
    umask 077
    TZ=Pacific/Kiritimati HOME=/nonexistent \
        "$work/again/tree/deploy/debian/build.sh" "$work/again/built"
}
same_bytes() {
    local one
    wait "$second" || {
        cat "$work/second.log"
        return 1
    }
    for one in "$folder"/*.deb; do
        cmp "$one" "$work/again/built/${one##*/}" || return 1
    done
}

make_system() {
    local suite needs
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    # What the package depends on comes with the system, so that nothing is fetched inside.
    needs=$(dpkg-deb -f "$package" Depends | sed 's/ *([^)]*)//g; s/, */,/g')
    set -m # a process group of its own, which clean_up can end
    debootstrap --variant=minbase --include="systemd,$needs" "$suite" "$system" \
        ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/log" 2>&1 </dev/null &
    making=$!
    set +m
    wait "$making" || {
        tail -n 20 "$work/log" >&2
        return 1
    }
    making=
    cp "$package" "$system/lockagent.deb"
    dpkg-deb -R "$package" "$work/newer"
    sed -i 's/^Version: .*/&+newer/' "$work/newer/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/newer" "$system/newer.deb" >/dev/null
}
boot() {
    mkdir "$work/cgroup"
    mount -t cgroup2 cgroup2 "$work/cgroup"
    mkdir "$cgroup"
    unshare --mount --pid --net --uts --ipc --fork \
        "$top/tests/deb/boot.sh" "$system" "$cgroup" </dev/null >"$work/console" 2>&1 &
    outer=$!
    within 5 is_forked || return 1
    within 60 booted || {
        cat "$work/console"
        inside systemctl --failed
        return 1
    }
}
is_forked() { init=$(pgrep -P "$outer"); }
booted() {
    [ "$(readlink "/proc/$init/exe")" = /usr/lib/systemd/systemd ] &&
        inside systemctl is-system-running
}
inside() { nsenter --target "$init" --all env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
service() { inside systemctl "$1" lockagent; }
main_pid() { inside systemctl show -P MainPID lockagent; }
masters() { # masters COMMAND...: of redis-cli, at each
    local port
    for port in 7001 7002 7003; do
        nsenter --target "$init" --net redis-cli -p "$port" "$@" || return 1
    done
}
start_masters() {
    local port
    for port in 7001 7002 7003; do
        mkdir "$work/$port"
        nsenter --target "$init" --net --pid redis-server --port "$port" --dir "$work/$port" \
            --save '' --daemonize yes || return 1
    done
    within 10 masters ping
}
api() { # api METHOD PATH [OPTION...]: of curl
    local method=$1 path=$2
    shift 2
    nsenter --target "$init" --net curl -sS --fail-with-body --max-time 10 -X "$method" "$@" \
        "http://127.0.0.1:8080$path"
}
ready() { within 20 api GET /readyz; }

config=/etc/lockagent/lockagent.yaml
secret=/etc/credstore/lockagent.password
credential=/run/credentials/lockagent.service/lockagent.password
write_password() { # write_password PASSWORD: root's alone, and what the masters ask for
    install -d -m 700 "$system/etc/credstore"
    install -m 600 /dev/stdin "$system$secret" <<<"$1"
    masters ${password:+--no-auth-warning -a "$password"} config set requirepass "$1"
    password=$1
}
configure() {
    sed -i "s|^    main:|&\n      password_file: $credential|" "$system$config"
    cat >>"$system$config" <<CONFIG
listen: [127.0.0.1:8080, unix:/run/lockagent/api]
api: {socket_mode: "0666"}
limits: {max_ttl: 10s}
CONFIG
    grep -q "$credential" "$system$config"
}
as() { # as USER COMMAND...
    inside setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"
}
unreadable() { ! as "$1" cat "$2"; } # unreadable USER FILE
confined() {
    local user
    user=$(awk '/^Uid:/ {print $2}' "/proc/$(outside_pid)/status")
    [ "$user" -ge 61184 ] && unreadable "$user" "$secret" &&
        inside cat "$credential" >/dev/null && unreadable 12345 "$credential"
}
outside_pid() { # of the agent, as this machine numbers it
    head -n 1 "$cgroup/system.slice/lockagent.service/cgroup.procs"
}

absent() { ! [ -e "$system/$1" ]; }
files() { (cd "$system" && find etc lib/systemd usr var/lib/systemd -path '*lockagent*' | sort); }
not_started() { [ "$(service is-active)" = inactive ] && [ "$(service is-enabled)" = disabled ]; }
starts_bare() { service start && within 20 inside lockagent healthcheck; }
ends_in_order() {
    service stop && [ "$(inside systemctl show -P Result lockagent)" = success ] &&
        inside journalctl -o cat -u lockagent | grep '"lockagent ended"'
}
takes_votes() {
    inside lockagent trust --new "$config" --set redis.groups.main.password_file="$secret"
}
takes_lock() {
    token=$(api POST /locks/demo -H 'Accept: text/plain') && [ -n "$token" ]
}
# The watchdog still has the lock under its token: no PUT had to adopt it.
still_held() {
    api PUT /locks/demo -H "Lock-Token: $token" >"$work/put" && cat "$work/put" &&
        grep -q '"renew":"agent"' "$work/put" && ! grep -q '"adopted":true' "$work/put"
}
reloads() {
    local before
    before=$(main_pid)
    echo "log: {level: debug}" >>"$system$config"
    service reload && [ "$(main_pid)" = "$before" ] &&
        within 5 reloaded && still_held
}
reloaded() { api GET /metrics | grep '^lockagent_config_reloads_total{outcome="ok"} 1$'; }
# goes_on COMMAND...: after it another process serves, and holds what the one before held
goes_on() {
    local before
    before=$(main_pid)
    inside systemctl reset-failed lockagent # this test starts it too often for systemd's taste
    "$@" && within 20 is_another "$before" && ready && still_held
}
is_another() { [ "$(main_pid)" != "$1" ] && [ "$(main_pid)" != 0 ]; }
keep_journal() {
    install -D -m 644 "$system/usr/share/doc/lockagent/examples/journal.conf" \
        "$system/etc/systemd/system/lockagent.service.d/journal.conf"
    inside systemctl daemon-reload && service restart && ready
}
new_password() { write_password correct-horse && service restart; }
upgrade() {
    inside dpkg -i /newer.deb && inside dpkg -s lockagent | grep '^Version: .*+newer$'
}
upgrade_stopped() {
    service stop && inside dpkg -i /newer.deb && [ "$(service is-active)" = inactive ]
}
removed() {
    service start && ready && inside dpkg -r lockagent &&
        [ "$(service is-active)" = inactive ] && ! api GET /livez && absent usr/bin/lockagent &&
        ! inside ls -d /run/lockagent
}
forgotten() {
    ! inside systemctl cat lockagent && [ -z "$(inside systemctl --failed --legend=no)" ]
}

declares_openssl() { dpkg-deb -f "$package" Depends | grep -w libssl3; }
loads_openssl() {
    inside lockagent check "$config" --set 'redis.groups.main.masters=rediss://master'
}

mkdir -p "$1"
folder=$(cd "$1" && pwd)
package=$("$top/deploy/debian/build.sh" "$folder" | tail -n 1)
[ -f "$package" ] || exit 1 # what lintian says is above
echo "ok      built, and lintian has nothing to say"
passed=1
set -m
build_again >"$work/second.log" 2>&1 </dev/null &
second=$!
set +m
make_system
check "built again elsewhere, it has the same bytes" same_bytes
second=
check "a system with systemd as its process 1" boot
if [ "$failed" -ne 0 ]; then
    echo "$passed passed, $failed failed"
    exit 1
fi

check "installed" inside dpkg -i /lockagent.deb
check "the program says its version" test "lockagent $(dpkg-deb -f "$package" Version)" = \
    "$(inside lockagent --version)"
check "it knows its configuration" inside lockagent check "$config"
check "it depends on OpenSSL, which it loads by itself" declares_openssl
check "it loads OpenSSL" loads_openssl
check "that is a conffile" inside sh -c \
    "dpkg-query -W -f '\${Conffiles}' lockagent | grep -q $config"
check "manual page" inside sh -c "zcat /usr/share/man/man1/lockagent.1.gz | grep -q lockagent"
check "completions for bash" inside bash -n /usr/share/bash-completion/completions/lockagent
check "completions for zsh" test -f "$system/usr/share/zsh/vendor-completions/_lockagent"
check "systemd understands the unit" inside systemd-analyze verify --man=no lockagent.service
check "systemd calls it well confined" \
    inside systemd-analyze security --threshold=20 lockagent.service # in tenths
check "neither enabled nor started by itself" not_started
check "it starts with the configuration it comes with" starts_bare
check "it ends in order" ends_in_order

check "three masters" start_masters
check "a password that only root can read" write_password hunter2
check "configured" configure
check "the masters' first votes" takes_votes
check "enabled and started" inside systemctl enable --quiet --now lockagent
check "it reads the password as a credential" ready
check "its user cannot read the file, nor others the credential" confined
check "other users reach its unix socket" \
    as 12345 lockagent healthcheck --address unix:/run/lockagent/api
check "status" service status
check "journal.conf, of the examples" keep_journal
check "a lock is taken" takes_lock
check "reloaded, it is the same process" reloads
check "killed, it goes on with the lock" goes_on inside systemctl kill --signal=KILL lockagent
check "restarted, it goes on with the lock, and has a new password" goes_on new_password
check "upgraded, it goes on with the lock" goes_on upgrade
check "the lock is released" api DELETE /locks/demo -H "Lock-Token: $token"
check "an upgrade does not start what was stopped" upgrade_stopped

check "removed, it is stopped and the program is gone" removed
check "what was configured stays" grep -q "$credential" "$system$config"
check "purged" inside dpkg -P lockagent
rm -r "$system/etc/systemd/system/lockagent.service.d" # the administrator's
rm "$system$secret"
check "nothing is left" test -z "$(files | grep -v '^var/lib/systemd$')"
check "systemd has forgotten it" forgotten
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
