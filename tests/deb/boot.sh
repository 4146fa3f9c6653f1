#!/usr/bin/env bash
# Becomes process 1 of a system of its own: boot.sh SYSTEM CGROUP, as process 1 of new namespaces
# of mounts, processes, network, names and IPC. CGROUP is an empty cgroup of version 2; it is the
# root of those that the system sees. The kernel's settings are read-only, so nothing that the
# system does at its start changes the machine.
set -euo pipefail
if [ "$1" != --inside ]; then
    echo 0 >"$2/cgroup.procs"
    exec unshare --cgroup "${BASH_SOURCE[0]}" --inside "$1"
fi
mount --make-rprivate /
mount --bind "$2" "$2"
cd "$2"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755,nosuid tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for device in null zero full random urandom tty; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir -p mnt/outside
pivot_root . mnt/outside
cd /
# systemd hands credentials to a service through a mount that has to spread below /run.
mount --make-rshared /
mount --make-rprivate /mnt/outside
umount --lazy /mnt/outside
exec env -i container=lockagent-deb PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    setpriv --bounding-set=-sys_module,-sys_time,-sys_rawio,-sys_boot \
    /lib/systemd/systemd --log-target=journal --show-status=no
