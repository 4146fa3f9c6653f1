#!/usr/bin/env bash
# Builds Debian's package of this tree: build.sh FOLDER, where lockagent_VERSION_ARCH.deb is then.
# lintian must have nothing to say of it. The same tree makes the same bytes at any time, in any
# folder and for any user. SOURCE_DATE_EPOCH is the date of the package, by default that of the
# last commit.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$top"
# shellcheck source=deploy/source.sh
. deploy/source.sh
version=$(source_version)
source=$folder/lockagent-$version
rm -rf "$source" "$folder"/lockagent*_"$version"*
mkdir "$source"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(source_epoch)}
export SOURCE_DATE_EPOCH
# debhelper keeps dates that are older than SOURCE_DATE_EPOCH. In the tree where a commit was made
# they are older, in a new clone they are not. Therefore all files get the same date.
source_files |
    tar --null -T - --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rw,go=rX -cf - |
    tar -xpf - -C "$source"
mv "$source/deploy/debian" "$source/debian"
maintainer=$(sed -n 's/^Maintainer: //p' deploy/debian/control)
cat >"$source/debian/changelog" <<CHANGES
lockagent ($version) unstable; urgency=medium

  * lockagent $version: the changes are in CHANGELOG.md.

 -- $maintainer  $(LC_ALL=C date -Ru -d "@$SOURCE_DATE_EPOCH")
CHANGES
cd "$source"
dpkg-buildpackage --build=binary --unsigned-changes --no-sign >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log" >&2
    exit 1
}
cd "$folder"
lintian --fail-on error,warning,info --allow-root lockagent_"$version"_*.changes >&2
echo "$folder/$(ls lockagent_"$version"_*.deb)"
