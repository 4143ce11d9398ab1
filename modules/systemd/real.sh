#!/usr/bin/env bash
# Runs a separate systemd as PID 1 of new namespaces: real.sh DIR COMMAND...
# Runs COMMAND with PODSYNC_SYSTEMD, the address of its bus, and PODSYNC_SYSTEMD_CGROUP, its cgroup in each tree.
# The files of the machine are the lower layer of an overlay, so that systemd changes none of them. Of the machine's
# services it starts only D-Bus. Needs root, cgroups version 1, systemd and dbus-daemon.
set -euo pipefail

dir=$1 group=/podsync-systemd-$$
shift
mkdir -p "$dir"

boot() {
  mount --make-rprivate /
  mount -t tmpfs tmpfs "$dir"
  mkdir "$dir"/{upper,work,root}
  mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$dir/root"
  cd "$dir/root"
  mount -t proc proc proc
  mount --bind proc/sys proc/sys
  mount -o remount,bind,ro proc/sys
  mount -t tmpfs tmpfs sys
  mount -t tmpfs tmpfs dev
  local device
  for device in null zero random urandom; do
    touch "dev/$device"
    mount --bind "/dev/$device" "dev/$device"
  done
  mount -t tmpfs tmpfs run
  mount -t tmpfs tmpfs tmp
  mkdir -p sys/fs/cgroup run/dbus
  mount -t tmpfs tmpfs sys/fs/cgroup
  local tree
  for tree in $(cd /sys/fs/cgroup && ls); do
    [ -f "/sys/fs/cgroup/$tree/tasks" ] || continue
    mkdir "sys/fs/cgroup/$tree"
    if [ "$tree" = systemd ]; then
      mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
    else
      mount -t cgroup -o "$tree" cgroup "sys/fs/cgroup/$tree"
    fi
  done
  rm -rf etc/systemd/system
  mkdir -p etc/systemd/system
  printf '[Unit]\nDefaultDependencies=no\nWants=dbus.service\n' > etc/systemd/system/only.target
  printf '[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=/run/dbus/system_bus_socket\n' > etc/systemd/system/dbus.socket
  printf '[Unit]\nDefaultDependencies=no\nRequires=dbus.socket\nAfter=dbus.socket\n[Service]\nType=notify\nNotifyAccess=main\nExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile --systemd-activation\n' > etc/systemd/system/dbus.service
  exec env -i container=podsync PATH="$PATH" chroot . /lib/systemd/systemd --system --unit=only.target --log-target=console --log-level=info
}

if [ "${1:-}" = --boot ]; then
  dir=$2
  boot
fi

cleanup() {
  kill -KILL "$pid" 2> /dev/null || true
  wait "$pid" 2> /dev/null || true
  local tree
  for tree in /sys/fs/cgroup/*/; do
    find "$tree$group" -depth -type d -exec rmdir {} \; 2> /dev/null || true
  done
}

for tree in /sys/fs/cgroup/*/; do
  [ -f "$tree/tasks" ] || continue
  mkdir -p "$tree$group"
  for file in cpuset.cpus cpuset.mems; do # a process can enter only after they are set
    [ ! -f "$tree/$file" ] || cat "$tree/$file" > "$tree$group/$file"
  done
done
(
  for tree in /sys/fs/cgroup/*/; do
    [ -f "$tree$group/cgroup.procs" ] && echo "$BASHPID" > "$tree$group/cgroup.procs"
  done
  exec unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child bash "$0" "$dir" --boot "$dir"
) > "$dir.log" 2>&1 &
pid=$!
trap cleanup EXIT
for _ in $(seq 300); do
  init=$(pgrep -P "$pid" | head -n 1 || true)
  [ -n "$init" ] && [ -S "/proc/$init/root/run/dbus/system_bus_socket" ] && break
  sleep 0.1
done
PODSYNC_SYSTEMD="unix:path=/proc/$init/root/run/dbus/system_bus_socket" PODSYNC_SYSTEMD_CGROUP=$group "$@"
