#!/usr/bin/env bash
# Brings up and takes down a private containerd for the end-to-end tests.
#
#   containerd.sh up VERSION DIR     VERSION is 1.6 (Debian's) or 2.4; prints the endpoint
#   containerd.sh start VERSION DIR  starts it again where it was up and has died
#   containerd.sh down VERSION DIR   stops it and what runs in it, and removes DIR
#   containerd.sh build VERSION      what up does before it starts anything
#
# up installs the packages that it needs with apt-get. For 2.4 it builds containerd
# once, with go install, into $PODSYNC_E2E_CACHE (default ~/.cache/podsync-e2e). Several
# can be up at once, in directories of their own. The images are
# localhost/busybox:e2e, without an entrypoint, and localhost/pause:e2e. containerd
# reads DIR/registries/HOST/hosts.toml when it pulls from a host.
# Needs root and cgroups.
set -euo pipefail

readonly CONTAINERD_2=v2.4.2

source "$(dirname "${BASH_SOURCE[0]}")/node.sh"

main() {
  if [ $# = 2 ] && [ "$1" = build ]; then
    set -- "$@" -
  fi
  [ $# = 3 ] || die "usage: containerd.sh up|start|down 1.6|2.4 DIR, or build 1.6|2.4"
  local verb=$1 version=$2 dir=$3
  case $version in 1.6 | 2.4) ;; *) die "version $version is neither 1.6 nor 2.4" ;; esac
  [ "$(id -u)" = 0 ] || die "needs root"
  case $verb in
    build) build "$version" ;;
    up) up "$version" "$(mkdir -p "$dir" && realpath "$dir")" ;;
    start) start "$version" "$(realpath "$dir")" ;;
    down) [ ! -d "$dir" ] || down "$(realpath "$dir")" ;;
    *) die "neither up, start, down nor build: $verb" ;;
  esac
}

install_packages() {
  local need
  for need in /usr/bin/containerd /usr/sbin/runc /usr/lib/cni/ptp /bin/busybox /usr/sbin/iptables /usr/sbin/ip; do
    if [ ! -e "$need" ]; then
      apt-get update -qq
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
        containerd runc containernetworking-plugins busybox-static iptables iproute2 > /dev/null
      return
    fi
  done
}

# binaries prints the directory with containerd, its shim and ctr.
binaries() {
  if [ "$1" = 1.6 ]; then
    echo /usr/bin
    return
  fi
  local bin=${PODSYNC_E2E_CACHE:-$HOME/.cache/podsync-e2e}/containerd-${CONTAINERD_2#v} cmd
  for cmd in containerd containerd-shim-runc-v2 ctr; do
    [ -x "$bin/$cmd" ] || CGO_ENABLED= GOFLAGS= GOBIN=$bin go install "github.com/containerd/containerd/v2/cmd/$cmd@$CONTAINERD_2"
  done
  echo "$bin"
}

build() {
  install_packages
  binaries "$1"
}

# Lowering oom_score_adj is refused in many containers and virtual machines, so
# containerd is told not to try.
write_config() {
  local version=$1 dir=$2
  {
    echo "version = $([ "$version" = 1.6 ] && echo 2 || echo 3)"
    echo "root = \"$dir/root\""
    echo "state = \"$dir/state\""
    echo "[grpc]"
    echo "  address = \"$dir/containerd.sock\""
    if [ "$version" = 1.6 ]; then
      cat << END
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:e2e"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "/usr/lib/cni"
  conf_dir = "$dir/cni"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "$dir/registries"
END
    else
      cat << END
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "localhost/pause:e2e"
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "$dir/registries"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_cdi = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["/usr/lib/cni"]
  conf_dir = "$dir/cni"
END
    fi
  } > "$dir/config.toml"
}

# containerd's CRI plugin learns of images by events, so they are imported when
# it runs, and each under one name only.
import_image() {
  local ctr=$1 dir=$2 name=$3
  shift 3
  write_image "$dir" "$name" "$@"
  "$ctr" -a "$dir/containerd.sock" -n k8s.io images import "$dir/$name.tar" > /dev/null 2>&1
}

up() {
  local version=$1 dir=$2 bin
  [ ! -e "$dir/pid" ] || die "something is up in $dir already"
  bin=$(build "$version")
  write_cni "$dir"
  write_config "$version" "$dir"
  start "$version" "$dir"
  import_image "$bin/ctr" "$dir" busybox
  import_image "$bin/ctr" "$dir" pause sleep 2147483647
  echo "unix://$dir/containerd.sock"
}

start() {
  local version=$1 dir=$2 bin
  check_down "$dir"
  bin=$(binaries "$version")
  PATH=$bin:$PATH nohup "$bin/containerd" -c "$dir/config.toml" >> "$dir/containerd.log" 2>&1 < /dev/null &
  echo $! > "$dir/pid"
  await containerd "$dir" containerd.log "$bin/ctr" -a "$dir/containerd.sock" version
}

# The parents of containers are the shims, which know containerd by its socket.
parents() { processes "^[^ ]*containerd-shim[^ ]* .*-address $1/containerd.sock"; }

main "$@"
