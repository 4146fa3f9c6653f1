#!/usr/bin/env bash
# Proves the boundary of the lock core and of the rooms (D2): core_boundary.sh TOP LIBLOCKCORE CC...
#
# 1. Every source of the core compiles where no header of any library exists, the C library's
#    included: only the compiler's own freestanding headers and two stand-ins written here, which
#    are the whole list of what it may call.
# 2. The archive asks the linker for nothing beyond core_symbols.txt.
# 3. No room includes what lies behind it, and each library is known in its own room only.
set -uo pipefail
top=$1 archive=$2
shift 2
cc=("$@")
passed=0 failed=0

check() { # check WHAT FINDINGS: no findings is good
    if [ -z "$2" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n%s\n' "$1" "$2"
    fi
}

headers=$(mktemp -d)
trap 'rm -rf "$headers"' EXIT
cat >"$headers/string.h" <<'CONF'
#pragma once
#include <stddef.h>
void *memcpy(void *restrict to, const void *restrict from, size_t len);
void *memmove(void *to, const void *from, size_t len);
void *memset(void *at, int byte, size_t len);
int memcmp(const void *a, const void *b, size_t len);
size_t strlen(const char *text);
CONF
echo '#define static_assert _Static_assert' >"$headers/assert.h"

own=$("${cc[@]}" -print-file-name=include)
for source in "$top"/agent/core/*.c; do
    check "${source#"$top/"} needs headers that the core must not know" \
        "$("${cc[@]}" -std=gnu11 -ffreestanding -nostdinc -isystem "$own" -isystem "$headers" \
            -I "$top" -Wall -Werror=implicit-function-declaration -fsyntax-only "$source" 2>&1)"
done

wanted=$(nm -u "$archive" | awk 'NF == 2 {print $2}' | sort -u)
defined=$(nm --defined-only "$archive" | awk 'NF == 3 {print $3}' | sort -u)
allowed=$(grep -v '^#' "$top/tests/lint/core_symbols.txt" | sort -u)
check "the archive defines something" "$([ -n "$defined" ] || echo nothing)"
check "symbols that the core must not need" \
    "$(comm -23 <(echo "$wanted") <(sort -u <(echo "$defined") <(echo "$allowed")))"

includes() { # includes PATTERN PATH...: lines of these sources that include it
    local pattern=$1
    shift
    (cd "$top" && grep -rnE --include='*.[ch]' "^ *# *include *[<\"]($pattern)" "$@" 2>/dev/null)
}
check "agent/core looks out of its room" \
    "$(includes '(agent/|config/|api/|tests/)' agent/core | grep -v '"agent/core/')"
check "agent/base knows a room" \
    "$(includes '(agent/|config/|api/|tests/)' agent/base | grep -vE '"agent/(base/|core/types.h)')"
check "config looks back" \
    "$(includes '(agent/|api/|tests/)' config | grep -vE '"agent/(base|core)/')"
check "agent/redis looks back" \
    "$(includes '(agent/[a-z_]*\.h|agent/(metrics|run)/|api/|tests/)' agent/redis)"
check "hiredis outside of agent/redis" \
    "$(includes 'hiredis' agent config api | grep -v '^agent/redis/')"
check "OpenSSL outside of agent/redis/openssl.h" \
    "$(includes 'openssl' agent config api | grep -v '^agent/redis/openssl.h:')"
check "agent/redis/openssl.h outside of agent/redis/tls.c" \
    "$(includes 'agent/redis/openssl.h' agent config api |
        grep -vE '^agent/redis/(tls|openssl).c:')"
check "libmicrohttpd outside of api" "$(includes 'microhttpd' agent config api | grep -v '^api/')"
check "libyaml outside of config" "$(includes 'yaml' agent config api | grep -v '^config/')"
check "jansson outside of api" "$(includes 'jansson' agent config api | grep -v '^api/')"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
