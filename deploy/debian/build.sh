#!/usr/bin/env bash
# Debian's package of this tree: build.sh FOLDER, where lockagent_VERSION_ARCH.deb is then. lintian
# must have nothing to say of it.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cd "$top"
version=$(sed -n "s/^project('lockagent'.* version: '\([^']*\)'.*/\1/p" meson.build)
source=$folder/lockagent-$version
rm -rf "$source" "$folder"/lockagent*_"$version"*
mkdir "$source"
git -c safe.directory="$top" ls-files -z --cached --others --exclude-standard |
    while IFS= read -r -d '' path; do [ ! -e "$path" ] || printf '%s\0' "$path"; done |
    tar --null -T - -cf - | tar -xf - -C "$source"
mv "$source/deploy/debian" "$source/debian"
changed=$(git -c safe.directory="$top" log -1 --format=%cD 2>/dev/null || date -R)
cat >"$source/debian/changelog" <<CHANGES
lockagent ($version) unstable; urgency=medium

  * lockagent $version: what is new stands in CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' deploy/debian/control)  $changed
CHANGES
cd "$source"
dpkg-buildpackage --build=binary --unsigned-changes --no-sign >"$folder/build.log" 2>&1 || {
    tail -n 30 "$folder/build.log" >&2
    exit 1
}
cd "$folder"
lintian --fail-on error,warning,info --allow-root lockagent_"$version"_*.changes >&2
echo "$folder/$(ls lockagent_"$version"_*.deb)"
