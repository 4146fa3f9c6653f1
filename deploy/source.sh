# What this tree is, in a clone and in an archive of `make dist` alike. A script that has set `top`,
# the tree's folder, sources it.
# shellcheck shell=bash

is_clone() { [ -e "${top:?}/.git" ]; }
in_clone() { git -c safe.directory="$top" -C "$top" "$@"; } # in_clone COMMAND...: of git

# Prints the paths of the tree's files, each with a NUL behind it. In a clone these are the files
# that are tracked or new, and neither ignored nor deleted. An archive has no others, but for what
# was built in it.
source_files() {
    if is_clone; then
        in_clone ls-files -z --cached --others --exclude-standard |
            while IFS= read -r -d '' path; do
                [ ! -f "$top/$path" ] || printf '%s\0' "$path"
            done
    else
        (cd "$top" && find . -type d \( -path './build*' -o -name __pycache__ \) -prune -o \
            ! -type d -printf '%P\0' | LC_ALL=C sort -z)
    fi
}

# Prints the date of the tree's last commit, in seconds since 1970. git writes it into the file
# `commit` of an archive.
source_epoch() {
    if is_clone; then
        in_clone log -1 --format=%ct
    else
        awk '{ print $2 }' "$top/deploy/commit"
    fi
}

source_version() {
    sed -n "s/^project('lockagent'.* version: '\([^']*\)'.*/\1/p" "$top/meson.build"
}
