#!/usr/bin/env bash
# A server of another Debian release, beside this machine's own: fetch.sh SUITE PACKAGE PROGRAM
# FOLDER makes FOLDER/redis-server, which runs that release's PROGRAM with the libraries that it was
# built for.
#
# The packages come from Debian's mirror (DEBIAN_MIRROR=...), with their signatures checked, and are
# unpacked into FOLDER alone: nothing is installed, and root is not needed. What is there already is
# left as it is.
set -euo pipefail
suite=$1 package=$2 program=$3 folder=$(realpath -m "$4")
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}

[ ! -x "$folder/redis-server" ] || exit 0
rm -rf --one-file-system "$folder"
mkdir -p "$folder"/{apt/lists/partial,apt/archives/partial,root}
: >"$folder/apt/status"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $mirror $suite main" >"$folder/apt/sources.list"

own_apt() { # apt-get that knows nothing of what is installed here
    apt-get -q -o Dir::Etc::SourceList="$folder/apt/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$folder/apt" -o Dir::State::Status="$folder/apt/status" \
        -o Dir::Cache="$folder/apt" -o Debug::NoLocking=true -o APT::Sandbox::User="$(id -un)" \
        -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::http::Timeout=20 "$@" \
        >>"$folder/log" 2>&1
}

if ! { own_apt update &&
    own_apt install -y --no-install-recommends --download-only "$package"; }; then
    tail -n 5 "$folder/log" >&2
    exit 1
fi
for archive in "$folder"/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$archive" |
        tar -x -C "$folder/root" --keep-directory-symlink --no-same-owner
done
rm -rf --one-file-system "$folder/apt"

find_one() { # find_one TEST...: the first file of the packages for which find's test is true
    find "$folder/root" ! -type d "$@" | sort | head -n 1 | grep .
}
loader=$(find_one -name 'ld-linux*.so*')
server=$(find_one -path "*/bin/$program")
libraries=$(find "$folder/root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
cat >"$folder/redis-server" <<SERVER
#!/bin/sh
exec "$loader" --library-path "$libraries" "$server" "\$@"
SERVER
chmod +x "$folder/redis-server"
"$folder/redis-server" --version
