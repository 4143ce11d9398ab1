# The Serial tests of the kubelet's own suite (k8s.io/kubernetes/test/e2e_node). suite.sh reads this file.
#
# The tests change the configuration of the agent, stop it and restart it. They expect a unit kubelet-* of systemd, whose
# configuration is the file kubelet-config in their working directory, and the root directory /var/lib/kubelet. The
# functions here stand in for systemd: they keep containerd running, and "systemctl" in the PATH of the tests stops and
# starts the agent that "suite.sh node" has started last, podsync-node or a kubelet.
#
#   PODSYNC_E2E_SKIP     a regular expression of tests to leave out; default: those of suite/serial-skip.txt
#   PODSYNC_E2E_IMAGES   a file with more images, in the format of "ctr images import": the tests of the life of containers
#                        need a busybox with nmeter, which that of Debian lacks; default: only those of suite.sh
#   PODSYNC_E2E_CGROUP   the cgroup above kubepods; default /. Some tests read /kubepods, and only the default suits them

# serial DIR [FOCUS] runs the Serial tests whose names match a regular expression; default all. DIR/serial/report.json has
# the result of each test.
serial() {
  local dir=$1 focus=${2:-.} keeper status=0
  [ -e "$dir/program" ] || die "no agent runs in $dir: start it with suite.sh node"
  build_serial
  mkdir -p "$dir/serial/bin" "$dir/serial/kubelet.conf.d" "$dir/static"
  (cd "$root" && go build -o "$dir/serial/readonlyport" ./internal/rig/e2e/readonlyport)
  stand_ins "$dir"
  image "$dir" registry.k8s.io/e2e-test-images/sample-device-plugin:1.7 -file "sample-device-plugin=$bin/sample-device-plugin" -- /sample-device-plugin
  if [ -n "${PODSYNC_E2E_IMAGES:-}" ]; then
    ctr "$dir" images import "$PODSYNC_E2E_IMAGES" > /dev/null
  fi
  publish "$dir"
  rm -f "$dir"/serial/kubelet.conf.d/*
  serial_configuration "$dir" > "$dir/serial/kubelet-config"
  # The tests expect a node under pressure without a taint: their own control plane has no controller that sets one.
  stop "$dir" kube-controller-manager
  controllers "$dir" '--controllers=*,-node-lifecycle-controller,-taint-eviction-controller'
  systemctl "$dir" restart
  await "$dir" kubelet ready "$dir"
  keep_containerd "$dir" &
  keeper=$!
  read_only_port "$dir" &
  trap "kill $keeper $! 2> /dev/null; stop '$dir' kube-controller-manager; controllers '$dir'" EXIT
  run_serial "$dir" "$focus" || status=$?
  grep -E '^(Ran [0-9]+ of|FAIL!|SUCCESS!)' "$dir/log/serial.log" || tail -n 20 "$dir/log/serial.log"
  return $status
}

# run_serial runs the tests in the directory whose kubelet-config the agent reads.
run_serial() {
  local dir=$1 skip
  skip=${PODSYNC_E2E_SKIP-$(patterns serial-skip.txt)}
  cd "$dir/serial"
  HTTP_PROXY=http://127.0.0.1:10255 PATH=$dir/serial/bin:$PATH nsenter "--net=$dir/net" "$bin/e2e_node.test" --ginkgo.label-filter=Serial --ginkgo.focus="$2" ${skip:+--ginkgo.skip="$skip"} \
    --ginkgo.focus-file=test/e2e_node/ --ginkgo.no-color --ginkgo.silence-skips --ginkgo.timeout=6h --ginkgo.json-report=report.json \
    --host="https://$ADDRESS" --bearer-token="$(cut -d, -f1 "$dir/pki/tokens.csv")" --node-name=n1 --dns-domain=cluster.local \
    --start-services=false --stop-services=false --prepull-images=false --container-runtime-endpoint="$(cat "$dir/endpoint")" \
    --container-runtime-pid-file="$dir/serial/containerd.pid" > "$dir/log/serial.log" 2>&1
}

# build_serial builds the tests and their device plugin. The tests are built from a copy of Kubernetes that does not
# validate the machine: the validation needs systemd and the configuration of the kernel.
build_serial() (
  export CGO_ENABLED=0 GOFLAGS= GOWORK=off
  cd "$here/suite"
  [ -x "$bin/sample-device-plugin" ] || go build -trimpath -ldflags '-s -w' -o "$bin/sample-device-plugin" k8s.io/kubernetes/test/images/sample-device-plugin
  [ ! -x "$bin/e2e_node.test" ] || return 0
  copy=$(mktemp -d)
  cp -r "$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)" "$copy/kubernetes"
  cp go.mod go.sum doc.go "$copy"
  chmod -R u+w "$copy"
  sed -i 's/gomega.Expect(validateSystem())/gomega.Expect(error(nil))/' "$copy/kubernetes/test/e2e_node/e2e_node_suite_test.go"
  cd "$copy"
  go mod edit -replace k8s.io/kubernetes=./kubernetes
  go test -mod=mod -c -vet=off -trimpath -ldflags '-s -w' -o "$bin/e2e_node.test" k8s.io/kubernetes/test/e2e_node
  rm -rf "$copy"
)

# stand_ins writes the programs that the tests call on a machine with systemd.
stand_ins() {
  printf '#!/bin/sh\nexec "$@"\n' > "$1/serial/bin/sudo"
  printf '#!/bin/sh\nexec env -u HTTP_PROXY "%s" systemctl "%s" "$@"\n' "$here/suite.sh" "$1" > "$1/serial/bin/systemctl"
  chmod +x "$1"/serial/bin/*
}

# systemctl DIR COMMAND... does what the tests ask of systemd.
systemctl() {
  local dir=$1 command=$2
  case $command in
    list-units)
      if [[ " $* " != *' --state=running '* ]] || alive "$dir/kubelet.pid"; then
        echo 'kubelet-n1.service loaded active running kubelet'
      fi
      ;;
    reset-failed) ;;
    kill | stop) stop "$dir" kubelet ;;
    start | restart)
      stop "$dir" kubelet
      start "$dir" kubelet "$(cat "$dir/program")" --config="$dir/serial/kubelet-config" --config-dir="$dir/serial/kubelet.conf.d" \
        --kubeconfig="$dir/node.kubeconfig" --root-dir=/var/lib/kubelet --hostname-override=n1 --node-ip=$ADDRESS
      ;;
    *) die "systemctl $command: it has no stand-in" ;;
  esac
}

# alive FILE succeeds if the process whose ID the file contains runs.
alive() { kill -0 "$(cat "$1" 2> /dev/null)" 2> /dev/null; }

# keep_containerd starts containerd again after a test has killed it, as systemd does.
keep_containerd() {
  local dir=$1
  while :; do
    alive "$dir/containerd/pid" || nsenter "--net=$dir/net" "$root/internal/rig/e2e/containerd.sh" start 2.4 "$dir/containerd" > /dev/null || true
    printf %s "$(cat "$dir/containerd/pid")" > "$dir/serial/containerd.pid"
    sleep 1
  done
}

# read_only_port stands in for the agent's read-only port, at which the tests of evictions read /stats/summary. They take
# the port from /configz, where it is 0, so that they reach the stand-in as their HTTP proxy.
read_only_port() {
  local pki=$1/pki
  exec nsenter "--net=$1/net" "$1/serial/readonlyport" "$ADDRESS:10250" "$pki/ca.crt" "$pki/kubelet-client.crt" "$pki/kubelet-client.key" > "$1/log/readonlyport.log" 2>&1
}

# serial_configuration is the configuration of suite.sh with the differences that the tests expect: static pods, cgroups
# and logs at a kubelet's paths, an end of the pressure that the tests wait for, and limits of local storage, without which
# a kubelet has no figures of file systems.
serial_configuration() {
  configuration "$1" | grep -v -e ^cgroupRoot -e ^podLogsDir -e ^localStorageCapacityIsolation
  echo "cgroupRoot: ${PODSYNC_E2E_CGROUP:-/}"
  echo "staticPodPath: $1/static"
  echo 'serializeImagePulls: false'
  echo 'evictionPressureTransitionPeriod: 30s'
}
