#!/usr/bin/env bash
# Tests the source archive: run_test.sh. It packs the last commit twice, as two users would, and
# compares the archive with the commit and with what its own scripts say of it. In a tree that is no
# clone it is skipped. The last line is `N passed, N failed`.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/source.sh
. "$top/deploy/source.sh"
if ! command -v git >/dev/null || ! is_clone; then
    echo "skipped: an archive is made of a commit, and this is no clone, or git is missing"
    exit 77
fi
passed=0 failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

check() { # check NAME COMMAND...
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED  $name"
        tail -n 20 "$work/log" | sed 's/^/       /'
    fi
}

# A clone of its own, without what is not committed, so that the test is of one commit.
clone() {
    in_clone clone -q "$top" "$work/a clone"
    [ -z "$(git -C "$work/a clone" status --porcelain)" ]
}
# Other user: umask, time zone, home, folder, and a configuration of git that changes archives.
packs_twice() {
    export GIT_CONFIG_GLOBAL=$work/gitconfig
    "$work/a clone/deploy/dist.sh" "$work/one"
    git config --global tar.umask 0077
    git config --global core.autocrlf true
    git config --global core.abbrev 40
    cp -r "$work/a clone" "$work/other"
    (umask 077 && TZ=Pacific/Kiritimati LC_ALL=C.UTF-8 HOME=/nonexistent XZ_OPT=--block-size=4096 \
        "$work/other/deploy/dist.sh" "$work/two")
}
same_bytes() { diff -r "$work/one" "$work/two"; }
sums() { (cd "$work/one" && sha256sum --check --strict SHA256SUMS); }
unpacks() {
    tar -C "$work" -xf "$work/one/lockagent-$(source_version).tar.xz"
    unpacked=$work/lockagent-$(source_version)
    [ -d "$unpacked" ]
}
same_files() {
    diff <(in_clone ls-tree -r -z --name-only HEAD | tr '\0' '\n' | LC_ALL=C sort) \
        <(cd "$unpacked" && find . ! -type d -printf '%P\n' | LC_ALL=C sort)
}
# What was built in it is not listed.
lists_itself() {
    mkdir -p "$unpacked/build-test" "$unpacked/tests/__pycache__"
    touch "$unpacked/build-test/x" "$unpacked/tests/__pycache__/x"
    diff <(in_clone ls-tree -r --name-only HEAD | LC_ALL=C sort) \
        <(top=$unpacked && source_files | tr '\0' '\n')
}
knows_its_date() {
    [ "$(top=$unpacked && source_epoch)" = "$(in_clone log -1 --format=%ct)" ]
}
knows_its_commit() { grep -q "^$(in_clone rev-parse HEAD) " "$unpacked/deploy/commit"; }
says_why_not() {
    ! "$unpacked/deploy/dist.sh" "$work/three" 2>"$work/why" &&
        grep "no clone of the repository" "$work/why"
}

check "a clone" clone
check "packed twice" packs_twice
check "it has the same bytes" same_bytes
check "the checksums are right" sums
check "it can be unpacked" unpacks
check "it has the files of the commit, and no others" same_files
check "it lists its files as git does" lists_itself
check "it knows the date of its commit" knows_its_date
check "it knows its commit" knows_its_commit
check "no archive is made of an archive" says_why_not
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
