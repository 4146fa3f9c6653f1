#!/usr/bin/env bash
# Builds both images of the agent twice, from nothing, in two folders: images.sh. One folder is the
# unpacked source archive, the other one a clone. All files of an image must be the same, with their
# modes, owners and links; the times of files and of layers are those of the build. The minimal
# image must be as small as the README says. The images of the build's stages stay, as Docker's
# cache. Needs a Docker daemon. The last line is `N passed, N failed`.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=deploy/source.sh
. "$top/deploy/source.sh"
passed=0 failed=0
name=lockagent-dist-$$
work=$(mktemp -d)
clean_up() {
    docker rmi "$name"-{archive,clone}-{image,minimal} >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean_up EXIT

if ! docker info >/dev/null 2>&1; then
    echo "skipped: no Docker daemon can be reached"
    echo "0 passed, 0 failed"
    exit 0
fi

unpack() {
    mkdir "$work/archive"
    "$top/deploy/dist.sh" "$work" >/dev/null
    tar -C "$work/archive" --strip-components=1 -xf "$work"/lockagent-*.tar.xz
    in_clone clone -q "$top" "$work/clone"
}

build() { # build FOLDER: both images; the second one uses what the first one has built
    local epoch
    epoch=$(source_epoch)
    docker build -q --no-cache --build-arg SOURCE_DATE_EPOCH="$epoch" -t "$name-$1-image" \
        "$work/$1" &&
        docker build -q --build-arg SOURCE_DATE_EPOCH="$epoch" --target minimal \
            -t "$name-$1-minimal" "$work/$1"
}

# Lists the files of an image: mode, owner, kind, link, name, and the hash of the contents.
contents() { # contents IMAGE
    local container
    container=$(docker create "$1" none)
    docker export "$container" | python3 -c '
import hashlib, sys, tarfile
lines = []
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as tar:
    for file in tar:
        data = tar.extractfile(file).read() if file.isreg() else b""
        owner = f"{file.mode:o} {file.uid}:{file.gid} {file.type.decode()}"
        lines.append(f"{file.name} {owner} {file.linkname} {hashlib.sha256(data).hexdigest()}")
print("\n".join(sorted(lines)))'
    docker rm "$container" >/dev/null
}

"$top/deploy/compose/images.sh" make "$(sed -n 's/^FROM \(debian:[^ ]*\).*/\1/p' \
    "$top/Dockerfile" | head -n 1)"
unpack
for folder in archive clone; do
    build "$folder" >"$work/log" 2>&1 || {
        tail -n 30 "$work/log"
        echo "0 passed, 1 failed"
        exit 1
    }
done
for image in image minimal; do
    for folder in archive clone; do
        contents "$name-$folder-$image" >"$work/$folder.$image"
    done
    if [ "$(wc -l <"$work/archive.$image")" -gt 20 ] &&
        diff "$work/archive.$image" "$work/clone.$image"; then
        passed=$((passed + 1))
        echo "ok      $image: $(wc -l <"$work/archive.$image") files are the same"
    else
        failed=$((failed + 1))
        echo "FAILED  $image: files differ"
    fi
done
# To the MB that the README says.
said=$(sed -n 's/.*its libraries alone, \([0-9]*\) MB.*/\1/p' "$top/README.md")
size=$(docker image inspect -f '{{.Size}}' "$name-archive-minimal")
if [ -n "$said" ] && ((size > (said - 1) * 1000000 && size < (said + 1) * 1000000)); then
    passed=$((passed + 1))
    echo "ok      minimal: $size bytes"
else
    failed=$((failed + 1))
    echo "FAILED  minimal: $size bytes, and the README says ${said:-no} MB"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
