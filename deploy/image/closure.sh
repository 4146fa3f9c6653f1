#!/bin/sh
# Copies a program and all that it loads out of this system, for an image that has nothing else:
# closure.sh PROGRAM FOLDER. FOLDER.packages, beside FOLDER, lists
# Debian's packages that the files are of; their copyright files come along.
set -eu
program=$1 target=$2
mkdir -p "$target"

# Each line of ldd ends with an address; what has no path is the kernel's own.
ldd "$program" | sed -nE 's/^.*(=>)?[[:space:]](\/[^ ]+) \(0x[0-9a-f]+\)$/\2/p' >"$target.files"
test -s "$target.files"
echo "$program" >>"$target.files"
xargs cp -L --parents -t "$target" <"$target.files"

while read -r file; do # what was built here is no package's
    dpkg-query -S "$(realpath "$file")" 2>/dev/null || true
done <"$target.files" | sed 's/[:,].*//' | sort -u >"$target.packages"
test -s "$target.packages"
while read -r package; do
    cp --parents -t "$target" "/usr/share/doc/$package/copyright"
done <"$target.packages"
