#!/usr/bin/env bash
# Debian's package in a system of its own: run.sh FOLDER, where it is built. It is installed,
# started as its unit says, removed and purged. Needs root. The last line is `N passed, N failed`.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
passed=0 failed=0
check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -n 20 "$work/log" | sed 's/^/       /'
    fi
}

work=$(mktemp -d)
agent= # while it serves
trap '[ -z "$agent" ] || kill -KILL "$agent"; rm -rf --one-file-system "$work"' EXIT
package=$("$top/deploy/debian/build.sh" "$1" | tail -n 1)
[ -f "$package" ] || exit 1 # what lintian says is above
echo "ok      built, and lintian has nothing to say"
passed=1

# What it depends on comes with the system, so that nothing is fetched inside.
needs=$(dpkg-deb -f "$package" Depends | sed 's/ *([^)]*)//g; s/, */,/g')
# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
system=$work/system
debootstrap --variant=minbase --include="systemd,$needs" "$suite" "$system" \
    ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"} >"$work/log" 2>&1 || {
    tail -n 20 "$work/log" >&2
    exit 1
}
cp "$package" "$system/lockagent.deb"
inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
files() { (cd "$system" && find etc lib/systemd usr var/lib/systemd -path '*lockagent*' | sort); }
absent() { ! [ -e "$system/$1" ]; }

# The unit's own command and user, in a network of its own; it lives, and ends in order.
serves() {
    local command outside
    read -ra command < <(sed -n 's/^ExecStart=//p' "$system/lib/systemd/system/lockagent.service")
    unshare --net --pid --fork chroot "$system" setpriv --reuid 61184 --regid 61184 \
        --clear-groups --no-new-privs --bounding-set=-all "${command[@]}" &
    outside=$!
    until agent=$(pgrep -P "$outside"); do
        kill -0 "$outside" || return 1
        sleep 0.1
    done
    nsenter --target "$agent" --net ip link set lo up
    for _ in $(seq 100); do
        if nsenter --target "$agent" --net chroot "$system" lockagent healthcheck; then
            kill -TERM "$agent"
            agent=
            wait "$outside"
            return
        fi
        sleep 0.1
    done
    kill -KILL "$agent"
    agent=
    return 1
}
verified() { systemd-analyze --root="$system" verify --man=no lockagent.service; }
exposure() { # exposure MOST: by systemd's own reckoning, in tenths
    systemd-analyze security --offline=true --root="$system" --threshold="$1" lockagent.service
}

check "installed" inside dpkg -i /lockagent.deb
check "the program says its version" test "lockagent $(dpkg-deb -f "$package" Version)" = \
    "$(inside lockagent --version)"
check "it knows its configuration" inside lockagent check /etc/lockagent/lockagent.yaml
check "that is a conffile" inside sh -c \
    "dpkg-query -W -f '\${Conffiles}' lockagent | grep -q /etc/lockagent/lockagent.yaml"
check "manual page" inside sh -c "zcat /usr/share/man/man1/lockagent.1.gz | grep -q lockagent"
check "completions for bash" inside bash -n /usr/share/bash-completion/completions/lockagent
check "completions for zsh" test -f "$system/usr/share/zsh/vendor-completions/_lockagent"
scripts=$system/var/lib/dpkg/info/lockagent
check "an upgrade does not stop it" absent var/lib/dpkg/info/lockagent.preinst
check "but restarts it where it runs" grep -q try-restart "$scripts.postinst"
check "its removal stops it" grep -q "stop lockagent.service" "$scripts.prerm"
check "not started by itself" absent etc/systemd/system/multi-user.target.wants/lockagent.service
check "systemd understands the unit" verified
check "systemd calls it well confined" exposure 20
check "it serves, as its unit says, and ends in order" serves
echo "# mine" >>"$system/etc/lockagent/lockagent.yaml"
check "removed" inside dpkg -r lockagent
check "what was configured stays" grep -q "# mine" "$system/etc/lockagent/lockagent.yaml"
check "the program does not" absent usr/bin/lockagent
check "purged" inside dpkg -P lockagent
check "nothing is left" test -z "$(files | grep -v '^var/lib/systemd$')"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
