# What containerd.sh and crio.sh share: a private runtime's network, its images, and
# how it is taken down. Sourced by them. Each defines parents, which prints the
# processes that stand above the containers of a directory.

die() { echo "$(basename "$0"): $*" >&2; exit 1; }

# A subnet for each directory lets several be up at once.
write_cni() {
  local dir=$1 third
  third=$(($(cksum <<< "$dir" | cut -d' ' -f1) % 250))
  mkdir -p "$dir/cni"
  cat > "$dir/cni/10-e2e.conflist" << END
{
  "cniVersion": "0.4.0",
  "name": "podsync-e2e-$third",
  "plugins": [{
    "type": "ptp",
    "ipam": {
      "type": "host-local",
      "dataDir": "$dir/ipam",
      "subnet": "10.89.$third.0/24",
      "routes": [{"dst": "0.0.0.0/0"}]
    }
  }]
}
END
}

# write_image DIR NAME [COMMAND...] writes DIR/NAME.tar, the image localhost/NAME:e2e.
write_image() {
  local dir=$1 name=$2
  shift 2
  (cd "$(dirname "${BASH_SOURCE[0]}")" && go run ./busyboximage /bin/busybox "localhost/$name:e2e" "$@") > "$dir/$name.tar"
}

# A runtime may have died without anybody waiting for it.
check_down() {
  local dir=$1
  if [ -e "$dir/pid" ] && grep -q '^State:.[^Z]' "/proc/$(cat "$dir/pid")/status" 2> /dev/null; then
    die "it is up in $dir already"
  fi
}

# await NAME DIR LOG COMMAND... waits until the command succeeds: then the runtime is up.
await() {
  local name=$1 dir=$2 log=$3 i
  shift 3
  for ((i = 0; i < 150; i++)); do
    if "$@" > /dev/null 2>&1; then
      return
    fi
    sleep 0.2
  done
  tail -n 20 "$dir/$log" >&2
  die "$name did not come up in $dir"
}

# processes prints those whose command line matches a pattern.
processes() {
  local proc
  for proc in /proc/[0-9]*; do
    if { tr '\0' ' ' < "$proc/cmdline"; } 2> /dev/null | grep -- "$1" > /dev/null; then
      echo "${proc#/proc/}"
    fi
  done
}

# down ends only processes that belong to the directory: the runtime by its pid file,
# the parents of containers, and their children, which are the containers.
down() {
  local dir=$1 pid parent i
  pid=$(cat "$dir/pid" 2> /dev/null || true)
  if [ -n "$pid" ] && kill "$pid" 2> /dev/null; then
    for ((i = 0; i < 100; i++)); do
      kill -0 "$pid" 2> /dev/null || break
      sleep 0.1
    done
    kill -9 "$pid" 2> /dev/null || true
  fi
  for parent in $(parents "$dir"); do
    { cat "/proc/$parent"/task/*/children | xargs -r kill -9; } 2> /dev/null || true
    kill -9 "$parent" 2> /dev/null || true
  done
  for ((i = 0; i < 50; i++)); do
    [ -n "$(parents "$dir")" ] || break
    sleep 0.1
  done
  awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r | xargs -r -n 1 umount -l 2> /dev/null || true
  rm -rf "$dir"
}
