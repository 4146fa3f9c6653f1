# The agent's two images: what they say of themselves, and that the minimal one needs nothing else.
# smoke.sh has expect(), status(), body(), and `project`, the name of the running composition.
# shellcheck shell=bash

minimal_agent=$project-minimal-agent
sbom=/usr/share/doc/lockagent/sbom.spdx.json

in_image() { # in_image IMAGE TAR-ARGUMENT...: of all its files
    local container image=$1
    shift
    container=$(docker create "$image")
    docker export "$container" | tar "$@"
    docker rm "$container" >/dev/null
}

config() { # config IMAGE JQ-EXPRESSION
    docker image inspect "$1" | jq -c ".[0].Config | $2"
}

label() { # label IMAGE NAME
    config "$1" ".Labels[\"org.opencontainers.image.$2\"]" | tr -d '"'
}

packages_of() { # packages_of IMAGE: their names, as its SBOM has them
    in_image "$1" -xO "${sbom#/}" | jq -r '.packages[].name' | sort
}

image_has_labels() { # image_has_labels IMAGE
    local name
    for name in title description revision; do
        expect "$1: label $name" "?*" "$(label "$1" "$name")"
    done
    expect "$1: label licenses" "Apache-2.0" "$(label "$1" licenses)"
    expect "$1: label version" "lockagent $(label "$1" version)" "$(docker run --rm "$1" --version)"
}

image_has_sbom() { # image_has_sbom IMAGE
    local is_whole='.spdxVersion == "SPDX-2.3" and .dataLicense == "CC0-1.0"
        and (.creationInfo.created | test("^20[0-9-]+T[0-9:]+Z$"))
        and ([.packages[] | .versionInfo | length > 0] | all)
        and ([.packages[].SPDXID] | sort) == ([.relationships[].relatedSpdxElement] | sort)
        and ([.packages[].SPDXID | test("^SPDXRef-[a-zA-Z0-9.-]+$")] | all)
        and ([.packages[].SPDXID] | length == (unique | length))'
    expect "$1: SBOM" true "$(in_image "$1" -xO "${sbom#/}" | jq "$is_whole")"
}

images_say_what_they_are() { # images_say_what_they_are IMAGE MINIMAL
    local image as_started='{User, Entrypoint, Cmd, Healthcheck, ExposedPorts}'
    for image in "$@"; do
        image_has_labels "$image"
        image_has_sbom "$image"
    done
    expect "the user of the image" '"65532:65532"' "$(config "$1" .User)"
    expect "the health check of the image" '"CMD lockagent healthcheck"' \
        "$(config "$1" '.Healthcheck.Test | join(" ")')"
    expect "both images start in the same way" \
        "$(config "$1" "$as_started" | md5sum)" "$(config "$2" "$as_started" | md5sum)"
    expect "the SBOM is of what dpkg lists, and of what was built" \
        "$({ echo lockagent && echo libmicrohttpd12t64 &&
            docker run --rm --entrypoint dpkg-query "$1" -W -f '${Package}\n'; } | sort)" \
        "$(packages_of "$1")"
}

# Each library is of a package that its SBOM names, and there is no program but the agent.
minimal_image_has_nothing_else() { # minimal_image_has_nothing_else IMAGE
    local programs packages=(libc6 libhiredis1.1.0 libjansson4 libmicrohttpd12t64 libssl3t64
        libuv1t64 libyaml-0-2 libzstd1 lockagent zlib1g)
    expect "minimal: its packages" "${packages[*]}" "$(packages_of "$1" | paste -sd ' ')"
    programs=$(in_image "$1" -t | grep -E '(^|/)(s?bin|libexec)/.' | paste -sd ' ')
    expect "minimal: its programs" "usr/bin/lockagent" "$programs"
    expect "minimal: its copyright files" "$(packages_of "$1" | paste -sd ' ')" \
        "$(in_image "$1" -t | sed -n 's|^usr/share/doc/\(.*\)/copyright$|\1|p' | sort |
            paste -sd ' ')"
}

# Beside the agent of the composition, on the same masters, and as narrow as that.
minimal_image_locks() { # minimal_image_locks IMAGE
    local try health answer
    docker run -d --name "$minimal_agent" --network "${project}_default" --read-only \
        --cap-drop ALL --security-opt no-new-privileges \
        -v "$PWD/deploy/compose/lockagent.yaml:/etc/lockagent/lockagent.yaml:ro" "$1" >/dev/null
    for ((try = 0; try < 60; try++)); do
        health=$(docker inspect --format '{{with .State.Health}}{{.Status}}{{end}}' \
            "$minimal_agent")
        [ "$health" != healthy ] || break
        sleep 0.5
    done
    expect "minimal: its health" healthy "$health"
    for ((try = 0; try < 40; try++)); do
        answer=$(from_minimal -X POST -H 'Accept: text/plain' localhost:8080/locks/smoke/minimal)
        [ "$(status "$answer")" != 201 ] || break
        sleep 0.25
    done
    expect "minimal: acquire" 201 "$(status "$answer")"
    expect "minimal: another agent is refused" 409 \
        "$(status "$(app -X POST localhost:8080/locks/smoke/minimal)")"
    expect "minimal: release" 204 "$(status "$(from_minimal -X DELETE \
        -H "Lock-Token: $(body "$answer")" localhost:8080/locks/smoke/minimal)")"
    [ "$failed" -eq 0 ] || docker logs --tail 20 "$minimal_agent"
    minimal_down
}

# The agent loads OpenSSL by itself, so no other check of this image would miss it.
minimal_image_loads_openssl() { # minimal_image_loads_openssl IMAGE
    local config=/etc/lockagent/lockagent.yaml
    expect "minimal: it loads OpenSSL" "$config: ok" \
        "$(docker run --rm "$1" check "$config" \
            --set 'redis.groups.main.masters=rediss://master' 2>&1)"
}

# A file that is there and cannot be read is not passed over for the environment alone.
minimal_image_says_what_it_cannot_read() { # minimal_image_says_what_it_cannot_read IMAGE
    local unreadable
    unreadable=$(mktemp)
    chmod 000 "$unreadable"
    expect "minimal: an unreadable default file" \
        "/etc/lockagent/lockagent.yaml: cannot be opened: Permission denied" \
        "$(docker run --rm -v "$unreadable:/etc/lockagent/lockagent.yaml:ro" \
            -e LOCKAGENT_REDIS_GROUPS_MAIN_MASTERS=redis://master "$1" --print-config 2>&1)"
    rm -f "$unreadable"
}

from_minimal() { # from_minimal CURL-ARGUMENT...: as a container of the same pod
    docker run --rm --network "container:$minimal_agent" --entrypoint curl \
        "$(docker inspect --format '{{.Image}}' "$(compose ps -q app)")" \
        -s -m 10 -w '\n%{http_code}\n' "$@"
}

minimal_down() {
    docker rm -f "$minimal_agent" >/dev/null 2>&1
    docker rmi "$project-minimal" >/dev/null 2>&1
}
