#!/bin/sh
# Copies a program and all that it loads out of this system, for an image that has nothing else:
# closure.sh PROGRAM FOLDER LIBRARY... The program loads each LIBRARY by itself, by this name, so
# the linker does not know it. FOLDER.packages, beside FOLDER, lists Debian's packages that the
# files are of; their copyright files come along.
set -eu
program=$1 target=$2
shift 2
mkdir -p "$target"

# Each line of ldd ends with an address; what has no path is the kernel's own. A library that is
# preloaded is listed with all that it needs.
LD_PRELOAD="$*" ldd "$program" |
    sed -nE 's/^.*(=>)?[[:space:]](\/[^ ]+) \(0x[0-9a-f]+\)$/\2/p' >"$target.files"
test -s "$target.files"
for library in "$@"; do
    grep -q "/$library\$" "$target.files"
done
echo "$program" >>"$target.files"
xargs cp -L --parents -t "$target" <"$target.files"

while read -r file; do # what was built here is no package's
    dpkg-query -S "$(realpath "$file")" 2>/dev/null || true
done <"$target.files" | sed 's/[:,].*//' | sort -u >"$target.packages"
test -s "$target.packages"
while read -r package; do
    cp --parents -t "$target" "/usr/share/doc/$package/copyright"
done <"$target.packages"
