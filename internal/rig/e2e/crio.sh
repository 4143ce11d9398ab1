#!/usr/bin/env bash
# Brings up and takes down a private CRI-O for the end-to-end tests.
#
#   crio.sh up DIR     prints the endpoint
#   crio.sh start DIR  starts it again where it was up and has died
#   crio.sh down DIR   stops it and what runs in it, and removes DIR
#
# up installs the packages that it needs with apt-get, and builds CRI-O once into
# $PODSYNC_E2E_CACHE (default ~/.cache/podsync-e2e). Several can be up at once, in
# directories of their own. The images are localhost/busybox:e2e, without an
# entrypoint, and localhost/pause:e2e.
# Needs root and cgroups.
set -euo pipefail

readonly CRIO=v1.34.0

source "$(dirname "${BASH_SOURCE[0]}")/node.sh"

main() {
  [ $# = 2 ] || die "usage: crio.sh up|start|down DIR"
  local verb=$1 dir=$2
  [ "$(id -u)" = 0 ] || die "needs root"
  case $verb in
    up) up "$(mkdir -p "$dir" && realpath "$dir")" ;;
    start) start "$(realpath "$dir")" ;;
    down) [ ! -d "$dir" ] || down "$(realpath "$dir")" ;;
    *) die "neither up, start nor down: $verb" ;;
  esac
}

install_packages() {
  local need
  for need in /usr/bin/gcc /usr/include/seccomp.h /usr/bin/pkg-config /usr/bin/conmon /usr/sbin/runc /usr/bin/skopeo \
    /usr/lib/cni/ptp /bin/busybox /usr/sbin/iptables /usr/sbin/ip; do
    if [ ! -e "$need" ]; then
      apt-get update -qq
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        gcc libc6-dev libseccomp-dev pkg-config conmon runc skopeo containernetworking-plugins busybox-static iptables iproute2 > /dev/null
      return
    fi
  done
}

# binaries prints the directory with crio and pinns. They are built in the module
# that they come from, for pinns is no Go program.
binaries() {
  local bin=${PODSYNC_E2E_CACHE:-$HOME/.cache/podsync-e2e}/crio-${CRIO#v} module
  if [ ! -x "$bin/crio" ]; then
    mkdir -p "$bin"
    module=$(GOFLAGS= go mod download -json "github.com/cri-o/cri-o@$CRIO" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    gcc -std=c99 -O2 -static -o "$bin/pinns" "$module"/pinns/src/*.c
    (
      cd "$module"
      GOFLAGS= CGO_ENABLED=1 go build -trimpath -ldflags '-s -w' -o "$bin/crio" \
        -tags 'containers_image_openpgp containers_image_ostree_stub exclude_graphdriver_btrfs btrfs_noversion seccomp' ./cmd/crio
    ) >&2
  fi
  echo "$bin"
}

# Lowering oom_score_adj is refused in many containers and virtual machines. CRI-O
# cannot be told not to try, so runc is.
write_runc() {
  cat > "$1/runc" << 'END'
#!/bin/sh
file=
for arg; do
  case $previous in
    --bundle | -b) file=$arg/config.json ;;
    --process | -p) file=$arg ;;
  esac
  previous=$arg
done
[ ! -f "$file" ] || sed -i 's/"oomScoreAdj": *-[0-9]*/"oomScoreAdj":0/' "$file"
exec /usr/sbin/runc "$@"
END
  chmod +x "$1/runc"
}

write_config() {
  local dir=$1 bin=$2
  echo '{"default": [{"type": "insecureAcceptAnything"}]}' > "$dir/policy.json"
  : > "$dir/registries.conf"
  : > "$dir/mounts.conf"
  cat > "$dir/storage.conf" << END
[storage]
driver = "overlay"
graphroot = "$dir/storage"
runroot = "$dir/run"
END
  cat > "$dir/crio.conf" << END
[crio]
root = "$dir/storage"
runroot = "$dir/run"
storage_driver = "overlay"
log_dir = "$dir/logs"
version_file = "$dir/version"
clean_shutdown_file = "$dir/clean.shutdown"
[crio.api]
listen = "$dir/crio.sock"
[crio.runtime]
default_runtime = "runc"
cgroup_manager = "cgroupfs"
conmon_cgroup = "pod"
enable_pod_events = true
apparmor_profile = "unconfined"
pinns_path = "$bin/pinns"
namespaces_dir = "$dir/ns"
container_exits_dir = "$dir/exits"
container_attach_socket_dir = "$dir/attach"
default_mounts_file = "$dir/mounts.conf"
decryption_keys_path = "$dir/keys"
irqbalance_config_file = "$dir/irqbalance"
irqbalance_config_restore_file = "disable"
hooks_dir = []
cdi_spec_dirs = []
[crio.runtime.runtimes.runc]
runtime_path = "$dir/runc"
runtime_root = "$dir/containers"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
[crio.image]
pause_image = "localhost/pause:e2e"
pause_command = ""
signature_policy = "$dir/policy.json"
signature_policy_dir = "$dir/policies"
[crio.network]
network_dir = "$dir/cni"
plugin_dirs = ["/usr/lib/cni"]
[crio.nri]
enable_nri = false
END
}

import_image() {
  local dir=$1 name=$2
  shift 2
  write_image "$dir" "$name" "$@"
  skopeo --policy "$dir/policy.json" copy -q "docker-archive:$dir/$name.tar" \
    "containers-storage:[overlay@$dir/storage+$dir/run]localhost/$name:e2e"
}

up() {
  local dir=$1
  [ ! -e "$dir/pid" ] || die "something is up in $dir already"
  install_packages
  write_cni "$dir"
  write_runc "$dir"
  write_config "$dir" "$(binaries)"
  import_image "$dir" busybox
  # CRI-O waits for its end, so it heeds SIGTERM.
  import_image "$dir" pause sh -c 'trap exit TERM; sleep 2147483647 & wait'
  start "$dir"
  echo "unix://$dir/crio.sock"
}

start() {
  local dir=$1 bin
  check_down "$dir"
  bin=$(binaries)
  CONTAINERS_STORAGE_CONF=$dir/storage.conf CONTAINERS_REGISTRIES_CONF=$dir/registries.conf nohup \
    "$bin/crio" -c "$dir/crio.conf" -d '' >> "$dir/crio.log" 2>&1 < /dev/null &
  echo $! > "$dir/pid"
  await CRI-O "$dir" crio.log "$bin/crio" status -s "$dir/crio.sock" info
}

# The parents of containers are conmon processes, each in a folder of its own below the
# directory.
parents() { processes "^[^ ]*conmon -b $1/run/"; }

main "$@"
