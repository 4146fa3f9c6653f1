#!/usr/bin/env bash
# Prints the Secrets of masters and agents, with a new password:
# secrets.sh NAMESPACE... | kubectl apply -f -
#
# redis-acl goes to the namespace of the masters, lockagent-password to that one, for the Job of
# their first votes, and to each NAMESPACE that has agents. Without a password a client may PING,
# which the masters' probes do, and nothing else.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: secrets.sh NAMESPACE..." >&2; exit 2; }
cd "$(dirname "${BASH_SOURCE[0]}")"
password=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
hash=$(printf %s "$password" | sha256sum | cut -d ' ' -f 1)
cat <<END
apiVersion: v1
kind: Secret
metadata: {name: redis-acl, namespace: lockagent}
stringData:
  users.acl: |
    user default on nopass resetkeys resetchannels -@all +ping
    $(sed "s/ resetpass / resetpass #$hash /" ../acl/full.acl)
END
mapfile -t namespaces < <(printf '%s\n' lockagent "$@" | sort -u)
for namespace in "${namespaces[@]}"; do
    cat <<END
---
apiVersion: v1
kind: Secret
metadata: {name: lockagent-password, namespace: "$namespace"}
stringData: {password: "$password"}
END
done
