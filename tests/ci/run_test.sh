#!/usr/bin/env bash
# .ci/run with gates that take no time: it ends well when all of them do, and only then, names the
# rows that were skipped, and leaves no file behind. If it is ended, its gates end as well.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/{repository/.ci,repository/deploy,bin,tmp}
cp "$top/.ci/run" "$work/repository/.ci"
printf '#!/bin/sh\n' >"$work/repository/deploy/install-deps.sh"
cat >"$work/bin/make" <<'END'
#!/bin/sh
[ "$1" != faults ] || echo "skipped a row: the clone is shallow"
[ "$1" != "$LONG" ] || { echo $$ >"$TMPDIR/../gate"; exec sleep 60; }
[ "$1" != "$BAD" ] || { echo "1 passed, 1 failed"; exit 2; }
echo "2 passed, 0 failed"
END
chmod +x "$work/bin/make" "$work/repository/deploy/install-deps.sh"

expect() { # expect GATE CODE FAILED: what it ends with where that gate fails
    local code=0 closing
    BAD=$1 TMPDIR=$work/tmp PATH=$work/bin:$PATH "$work/repository/.ci/run" >"$work/log" || code=$?
    closing=$(tail -n 1 "$work/log")
    if [ "$code" -ne "$2" ] || [[ $closing != *" passed, $3 failed" ]] ||
        [ -n "$(ls -A "$work/tmp")" ]; then
        echo "with $1 failing: exit $code, '$closing', left: $(ls -A "$work/tmp")"
        exit 1
    fi
}
expect none 0 0
if [ "$(tail -n 2 "$work/log" | head -n 1)" != "faults: skipped a row: the clone is shallow" ]; then
    echo "a row that was skipped is not among the last lines"
    exit 1
fi
for gate in test faults instructions load; do # first and last of each part
    expect "$gate" 1 1
done

TMPDIR=$work/tmp LONG=faults PATH=$work/bin:$PATH "$work/repository/.ci/run" >"$work/log" &
until [ -s "$work/gate" ]; do sleep 0.05; done
kill $!
wait $! || true
for ((tries = 0; tries < 100; tries++)); do
    kill -0 "$(cat "$work/gate")" 2>/dev/null || break
    sleep 0.1
done
if kill -0 "$(cat "$work/gate")" 2>/dev/null || [ -n "$(ls -A "$work/tmp")" ]; then
    echo "ended by hand: a gate goes on, or left: $(ls -A "$work/tmp")"
    exit 1
fi
