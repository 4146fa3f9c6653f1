#!/usr/bin/env bash
# The images that the composition starts from, where no registry can be reached: images.sh make, out
# of Debian's packages; images.sh check, whether they are there. images.sh make debian:bookworm-slim
# makes one of Debian's releases alone.
#
# An image that is here already, or that can be pulled, is left as it is. The names come from
# Dockerfile and docker-compose.yml, so there is one place for each. Needs a running docker daemon,
# and to make them root (debootstrap).
set -euo pipefail
what=$1 only=${2:-}
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

base=$(sed -n 's/^FROM \(debian:[^ ]*\).*/\1/p' "$top/Dockerfile" | sort -u)
redis=$(sed -n 's/^ *image: *\(redis:.*\)/\1/p' "$top/docker-compose.yml" | sort -u)
curl=$(sed -n 's/^ *image: *\(.*curl:.*\)/\1/p' "$top/docker-compose.yml" | sort -u)
base=${only:-$base}
suite=${base#debian:}
suite=${suite%-slim}

work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

quietly() { # quietly COMMAND...: what it says is shown only when it fails
    "$@" >"$work/log" 2>&1 || {
        tail -n 30 "$work/log" >&2
        return 1
    }
}

have() { # have IMAGE: it is here, or a registry gives it; else $work/why says what docker said
    docker image inspect "$1" >/dev/null 2>&1 ||
        timeout 120 docker pull -q "$1" >/dev/null 2>"$work/why"
}

# The same cuts as Debian's own slim images: no manual pages, no translations, no documentation but
# the copyright files, no package lists, and services that a package brings are not started.
trim() { # trim ROOT
    local root=$1
    cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'CONF'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
path-exclude /usr/share/lintian/*
CONF
    cat >"$root/etc/apt/apt.conf.d/slim" <<'CONF'
Acquire::Languages "none";
Acquire::GzipIndexes "true";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin || true"; };
CONF
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    find "$root/usr/share/doc" -mindepth 2 ! -name copyright ! -type d -delete
    rm -rf "$root"/usr/share/{man,info,locale,lintian}/* "$root"/var/log/{*.log,apt/*} \
        "$root"/var/lib/apt/lists/* "$root"/var/cache/{apt/*,ldconfig/*,debconf/*-old}
    : >"$root/etc/resolv.conf"
}

# Package sources as in Debian's own images: the release, its updates and its security updates.
sources() { # sources ROOT
    local root=$1 mirror
    mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$root/etc/apt/sources.list")
    rm "$root/etc/apt/sources.list"
    cat >"$root/etc/apt/sources.list.d/debian.sources" <<CONF
Types: deb
URIs: $mirror
Suites: $suite $suite-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: ${mirror%/}-security
Suites: $suite-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
CONF
}

make_base() {
    quietly debootstrap --variant=minbase "$suite" "$work/root" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
    sources "$work/root"
    trim "$work/root"
    tar -C "$work/root" --numeric-owner --exclude=./dev --exclude=./proc --exclude=./sys -c . |
        docker import --change 'CMD ["bash"]' - "$base" >/dev/null
}

build() { # build IMAGE: the Dockerfile comes on stdin
    quietly docker build -t "$1" -
}

make_redis() {
    build "$redis" <<CONF
FROM $base
RUN apt-get update -q && apt-get install -yq --no-install-recommends redis-server \
 && rm -rf /var/lib/apt/lists/* && install -d -o redis -g redis /data
USER redis
WORKDIR /data
VOLUME /data
EXPOSE 6379
CMD ["redis-server"]
CONF
}

make_curl() {
    build "$curl" <<CONF
FROM $base
RUN apt-get update -q && apt-get install -yq --no-install-recommends ca-certificates curl \
 && rm -rf /var/lib/apt/lists/*
USER nobody
ENTRYPOINT ["curl"]
CONF
}

if ! docker info >/dev/null 2>"$work/why"; then
    tail -n 1 "$work/why" >&2
    exit 1
fi
wanted=(base)
[ -n "$only" ] || wanted+=(redis curl)
for name in "${wanted[@]}"; do
    if have "${!name}"; then
        continue
    fi
    if [ "$what" = check ]; then
        tail -n 1 "$work/why" >&2
        echo "No registry gives ${!name}. \`make compose-images\` makes such images here, out of" \
            "Debian's packages; then try again." >&2
        exit 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        echo "images: no registry gives ${!name}, and only root can make it here" >&2
        exit 1
    fi
    echo "images: no registry gives ${!name}: making it from Debian's packages"
    "make_$name"
done
