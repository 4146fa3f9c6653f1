#!/usr/bin/env bash
# Packs the last commit as a source archive: dist.sh FOLDER. Then FOLDER has
# lockagent-VERSION.tar.xz and SHA256SUMS. One commit gives the same bytes in any clone, for any
# user and at any time, if git and xz are of the same versions.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=deploy/source.sh
. "$top/deploy/source.sh"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
if ! is_clone; then
    echo "dist: $top is no clone of the repository: an archive is made of a commit" >&2
    exit 1
fi
if [ -n "$(in_clone status --porcelain)" ]; then
    echo "dist: changes that are not committed are not in the archive" >&2
fi
name=lockagent-$(source_version)
# git sorts the names, owns all files as root, and dates them as the commit. The user's own settings
# of git and xz are overruled.
in_clone -c tar.umask=0022 -c core.autocrlf=false -c core.eol=lf \
    archive --format=tar --prefix="$name/" HEAD |
    env -u XZ_DEFAULTS -u XZ_OPT xz -6 --threads=1 >"$folder/$name.tar.xz"
(cd "$folder" && sha256sum "$name.tar.xz" >SHA256SUMS)
cat "$folder/SHA256SUMS"
