#!/usr/bin/env bash
# A Kubernetes control plane with one node, n1, and Kubernetes' own e2e tests against it.
#
#   suite.sh build               builds the programs, once: $PODSYNC_E2E_CACHE (default ~/.cache/podsync-e2e) keeps them
#   suite.sh up DIR              etcd, API server, controller manager, scheduler and containerd, in a separate network
#   suite.sh node DIR [PROGRAM]  the node's agent; default podsync-node of this checkout. PROGRAM takes a kubelet's flags
#   suite.sh run DIR [FOCUS]     the tests whose names match a regular expression; default suite/short.txt
#   suite.sh serial DIR [FOCUS]  the Serial tests of the kubelet's own suite; see serial.sh
#   suite.sh storage DIR [FOCUS] the tests of persistent volumes and CSI drivers; see storage.sh
#   suite.sh hours DIR [TIME]    kills and cuts off parts of the cluster, and checks the agent against rules; default 5m
#   suite.sh replace DIR         replaces a kubelet that kubeadm has configured by podsync-node, and back
#   suite.sh soak DIR [TIME]     replaces pods, pulls images and restarts containerd; the agent must not grow; default 20m
#   suite.sh measure DIR         measures the agent: times, requests, memory, CPU
#   suite.sh results ABOUT AGENT=REPORT...  prints a file of docs/results; see e2e/results
#   suite.sh down DIR            ends all processes, and removes DIR
#
# Needs root, cgroups, and the right to create a network namespace; "suite.sh possible" prints what is missing. No
# process reaches beyond the namespace DIR/net, so several clusters can run at once, in separate directories.
set -euo pipefail

readonly ADDRESS=10.87.0.1 SERVICE=10.96.0.1 # of the node, and of the service kubernetes.default
readonly REGISTRY=$ADDRESS:5000              # serves registry.k8s.io
readonly CRANE=v0.22.1                       # the program of the registry
readonly PROCS=${PODSYNC_E2E_PROCS:-4}       # tests at a time
readonly CGROUPS=/sys/fs/cgroup

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
version=$(sed -n 's/^\tk8s.io\/kubernetes v\([^ ]*\).*/\1/p' "$here/suite/go.mod")
bin=${PODSYNC_E2E_CACHE:-$HOME/.cache/podsync-e2e}/kubernetes-$version
source "$here/serial.sh"
source "$here/storage.sh"

main() {
  local verb=${1:-} dir=${2:-}
  case $verb in
    build | possible)
      "$verb"
      return
      ;;
    results)
      shift
      results "$@"
      return
      ;;
    up | node | run | serial | storage | systemctl | hours | replace | soak | measure | down) ;;
    *) die 'usage: suite.sh build | possible | results ABOUT AGENT=REPORT... | up DIR | node DIR [PROGRAM] | run DIR [FOCUS] | serial DIR [FOCUS] | storage DIR [FOCUS] | hours DIR [TIME] | replace DIR | soak DIR [TIME] | measure DIR | down DIR' ;;
  esac
  [ -n "$dir" ] || die "$verb: DIR is missing"
  if [ "$verb" = up ]; then
    mkdir -p "$dir"
  fi
  dir=$(realpath "$dir")
  "$verb" "$dir" "${@:3}"
}

die() { echo "suite.sh: $*" >&2; exit 1; }

# possible prints the requirements that the machine lacks.
possible() {
  local need
  [ "$(uname -s)" = Linux ] || { echo 'this is not Linux'; return 1; }
  [ "$(id -u)" = 0 ] || { echo 'root is needed'; return 1; }
  [ -x "$root/internal/rig/e2e/containerd.sh" ] || { echo 'internal/rig/e2e/containerd.sh is not there'; return 1; }
  for need in curl openssl unshare nsenter mountpoint; do
    command -v $need > /dev/null || { echo "$need is not there"; return 1; }
  done
  unshare --net true 2> /dev/null || { echo 'no network namespace can be made'; return 1; }
  [ -w $CGROUPS ] || { echo 'there are no cgroups to write to'; return 1; }
}

# build builds the programs that are missing. It builds the Go programs of one module together, because they share most of
# their packages, and leaves out vet, which takes longer than the compiler does.
build() (
  local name packages=() v=k8s.io/component-base/version
  local flags=(-trimpath -buildvcs=false -ldflags "-s -w -X $v.gitVersion=v$version -X $v.gitMajor=${version%%.*} -X $v.gitMinor=$(cut -d. -f2 <<< "$version")")
  export CGO_ENABLED=0 GOFLAGS= GOWORK=off
  mkdir -p "$bin"
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    [ -x "$bin/$name" ] || packages+=("k8s.io/kubernetes/cmd/$name")
  done
  [ -x "$bin/agnhost" ] || packages+=(k8s.io/kubernetes/test/images/agnhost)
  [ -x "$bin/ginkgo" ] || packages+=(github.com/onsi/ginkgo/v2/ginkgo)
  [ -x "$bin/crane" ] || GOBIN=$bin go install "github.com/google/go-containerregistry/cmd/crane@$CRANE"
  cd "$here/suite"
  [ -x "$bin/e2e.test" ] || echo "Kubernetes v$version is built, for which $bin has none: it takes a while" >&2
  [ ${#packages[@]} = 0 ] || go build "${flags[@]}" -o "$bin/" "${packages[@]}"
  [ -x "$bin/etcd" ] || go build "${flags[@]}" -o "$bin/etcd" go.etcd.io/etcd/server/v3
  [ -x "$bin/e2e.test" ] || go test -c -vet=off "${flags[@]}" -o "$bin/e2e.test" k8s.io/kubernetes/test/e2e
)

# --- the cluster ---

up() {
  local dir=$1 in=(nsenter "--net=$1/net")
  [ ! -e "$dir/net" ] || die "something is up in $dir already"
  build
  "$root/internal/rig/e2e/containerd.sh" build 2.4 > /dev/null
  mkdir -p "$dir/log"
  network "$dir"
  certificates "$dir"
  control_plane "$dir"
  "${in[@]}" "$root/internal/rig/e2e/containerd.sh" up 2.4 "$dir/containerd" | tail -n 1 > "$dir/endpoint"
  registry "$dir"
  images "$dir"
}

# network makes a namespace whose loopback device has the addresses of the node and of the
# API server's service, so that no kube-proxy is needed. The namespace has no route out.
network() {
  local dir=$1 address
  touch "$dir/net"
  unshare "--net=$dir/net" true
  nsenter "--net=$dir/net" ip link set lo up
  for address in $ADDRESS $SERVICE; do
    nsenter "--net=$dir/net" ip address add "$address/32" dev lo
  done
  nsenter "--net=$dir/net" sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'
}

certificates() {
  local pki=$1/pki user
  mkdir -p "$pki"
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/ca.key" -out "$pki/ca.crt" -subj /CN=e2e -days 365 2> /dev/null
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$pki/tokens.key" 2> /dev/null
  openssl pkey -in "$pki/tokens.key" -pubout -out "$pki/tokens.pub"
  (umask 077 && echo "$(openssl rand -hex 16),admin,admin,system:masters" > "$pki/tokens.csv")
  certificate "$pki" apiserver /CN=kube-apiserver "IP:$ADDRESS,IP:$SERVICE,IP:127.0.0.1,DNS:kubernetes.default.svc"
  certificate "$pki" kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client
  certificate "$pki" admin /O=system:masters/CN=admin
  certificate "$pki" controller-manager /CN=system:kube-controller-manager
  certificate "$pki" scheduler /CN=system:kube-scheduler
  certificate "$pki" node /O=system:nodes/CN=system:node:n1 "IP:$ADDRESS,DNS:n1"
  for user in admin controller-manager scheduler node; do
    kubeconfig "$pki" $user > "$1/$user.kubeconfig"
  done
}

# certificate PKI NAME SUBJECT [SAN]
certificate() {
  local pki=$1 name=$2
  openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout "$pki/$name.key" -subj "$3" 2> /dev/null |
    openssl x509 -req -CA "$pki/ca.crt" -CAkey "$pki/ca.key" -CAcreateserial -days 365 -out "$pki/$name.crt" 2> /dev/null \
      -extfile <(echo "extendedKeyUsage=clientAuth,serverAuth"; [ -z "${4:-}" ] || echo "subjectAltName=$4")
}

kubeconfig() {
  cat << END
apiVersion: v1
kind: Config
clusters: [{name: e2e, cluster: {server: "https://$ADDRESS", certificate-authority: "$1/ca.crt"}}]
users: [{name: "$2", user: {client-certificate: "$1/$2.crt", client-key: "$1/$2.key"}}]
contexts: [{name: e2e, context: {cluster: e2e, user: "$2"}}]
current-context: e2e
END
}

# start DIR NAME COMMAND... runs in the namespace, its process ID in NAME.pid, its output in log/NAME.log.
start() {
  local dir=$1 name=$2
  shift 2
  nohup nsenter "--net=$dir/net" "$@" >> "$dir/log/$name.log" 2>&1 < /dev/null &
  echo $! > "$dir/$name.pid"
}

control_plane() {
  local dir=$1 pki=$1/pki
  start "$dir" etcd "$bin/etcd" --data-dir="$dir/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-peer-urls=http://127.0.0.1:2380 --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379
  printf 'apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata, users: ["system:node:n1"]}, {level: None}]\n' > "$dir/audit.yaml"
  start "$dir" kube-apiserver "$bin/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --secure-port=443 --advertise-address=$ADDRESS \
    --service-cluster-ip-range=10.96.0.0/16 --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged \
    --enable-bootstrap-token-auth --client-ca-file="$pki/ca.crt" --token-auth-file="$pki/tokens.csv" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/tokens.pub" --service-account-signing-key-file="$pki/tokens.key" \
    --feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true --runtime-config=certificates.k8s.io/v1beta1=true \
    --kubelet-client-certificate="$pki/kubelet-client.crt" --kubelet-client-key="$pki/kubelet-client.key" \
    --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --audit-policy-file="$dir/audit.yaml" --audit-log-path="$dir/audit.log"
  await "$dir" kube-apiserver request "$dir" /readyz
  controllers "$dir"
  start "$dir" kube-scheduler "$bin/kube-scheduler" --kubeconfig="$dir/scheduler.kubeconfig" --authentication-kubeconfig="$dir/scheduler.kubeconfig" \
    --authorization-kubeconfig="$dir/scheduler.kubeconfig" --leader-elect=false
}

# controllers DIR [FLAG...] starts the controller manager.
controllers() {
  local dir=$1 pki=$1/pki
  shift
  start "$dir" kube-controller-manager "$bin/kube-controller-manager" --kubeconfig="$dir/controller-manager.kubeconfig" --use-service-account-credentials \
    --leader-elect=false --service-account-private-key-file="$pki/tokens.key" --root-ca-file="$pki/ca.crt" \
    --cluster-signing-cert-file="$pki/ca.crt" --cluster-signing-key-file="$pki/ca.key" "$@"
}

# request DIR PATH asks the API server as an administrator.
request() {
  nsenter "--net=$1/net" curl -sf --cacert "$1/pki/ca.crt" --cert "$1/pki/admin.crt" --key "$1/pki/admin.key" "https://$ADDRESS$2"
}

# await DIR NAME COMMAND... waits for a minute or two until the command succeeds.
await() {
  local dir=$1 name=$2 i
  shift 2
  for ((i = 0; i < 600; i++)); do
    if "$@" > /dev/null 2>&1; then
      return
    fi
    sleep 0.2
  done
  tail -n 20 "$dir/log/$name.log" >&2
  die "$name is not ready in $dir"
}

# registry starts a registry from which containerd pulls the images of registry.k8s.io, so that tests with the pull policy
# Always run, and images that the agent removes come back.
registry() {
  local dir=$1 hosts=$1/containerd/registries/registry.k8s.io
  start "$dir" registry "$bin/crane" registry serve --address="$REGISTRY"
  await "$dir" registry nsenter "--net=$dir/net" curl -sf "http://$REGISTRY/v2/"
  mkdir -p "$hosts"
  echo "server = \"http://$REGISTRY\"" > "$hosts/hosts.toml"
}

# publish pushes the images of registry.k8s.io that containerd has into the registry.
publish() {
  local dir=$1 name
  for name in $(ctr "$dir" images ls -q | grep '^registry.k8s.io/[^@]*$'); do
    ctr "$dir" images push --local --plain-http "$REGISTRY/${name#*/}" "$name" > /dev/null
  done
}

# images builds replacements for the images that the tests of suite/short.txt need: they contain busybox, and agnhost.
images() {
  local dir=$1 list
  list=$("$bin/e2e.test" --list-images | sort -V)
  image "$dir" "$(grep /e2e-test-images/busybox: <<< "$list" | tail -n 1)"
  image "$dir" "$(grep '^registry.k8s.io/pause:' <<< "$list")" -- sh -c 'trap exit TERM; sleep 2147483647 & wait'
  image "$dir" "$(grep /e2e-test-images/agnhost: <<< "$list" | tail -n 1)" -file "agnhost=$bin/agnhost" -command pause -- /agnhost
  publish "$dir"
}

# image DIR NAME [FLAG...] [-- ENTRYPOINT...]
image() {
  local dir=$1 name=$2 flags=()
  shift 2
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    flags+=("$1")
    shift
  done
  (cd "$root" && go run ./internal/rig/e2e/busyboximage "${flags[@]}" /bin/busybox "$name" "${@:2}") | ctr "$dir" images import - > /dev/null
}

# ctr DIR COMMAND... is containerd's client.
ctr() {
  local dir=$1
  shift
  nsenter "--net=$dir/net" "${PODSYNC_E2E_CACHE:-$HOME/.cache/podsync-e2e}/containerd-2.4.2/ctr" -a "$dir/containerd/containerd.sock" -n k8s.io "$@"
}

# --- the node ---

# node starts the agent, and stops an earlier one first.
node() {
  local dir=$1 program=${2:-$1/podsync-node}
  stop "$dir" kubelet
  [ $# != 1 ] || program "$dir"
  place "$dir"
  configuration "$dir" > "$dir/kubelet.yaml"
  realpath "$program" > "$dir/program"
  start "$dir" kubelet "$program" --config="$dir/kubelet.yaml" --kubeconfig="$dir/node.kubeconfig" --root-dir="$dir/disk/kubelet" \
    --hostname-override=n1 --node-ip=$ADDRESS
  await "$dir" kubelet ready "$dir"
}

program() { (cd "$root/modules/cluster" && CGO_ENABLED=0 go build -tags grpcnotrace -ldflags '-s -w' -o "$1/podsync-node" ./cmd/podsync-node); }

# place makes the directories and the cgroup of the agent.
place() {
  disk "$1"
  mkdir -p "$1/disk/kubelet" "$1/disk/pods"
  : > "$1/resolv.conf"
  cgroup "$1"
}

# disk mounts a small file system for the directories of the agent. TestHostileHours fills it.
disk() {
  mkdir -p "$1/disk"
  mountpoint -q "$1/disk" || mount -t tmpfs -o size=256m,mode=755 disk "$1/disk"
}

ready() { request "$1" /api/v1/nodes/n1 | tr -d ' \n' | grep -E '"type":"Ready","status":"True"' | grep -v node.kubernetes.io/not-ready; }

# cgroup creates the parent cgroup of all pods, which a kubelet expects to exist.
cgroup() {
  local name controller
  name=$(cgroup_name "$1")
  if [ -e $CGROUPS/cgroup.controllers ]; then
    mkdir -p "$CGROUPS$name"
    return
  fi
  for controller in "$CGROUPS"/*/; do
    mkdir -p "$controller$name" 2> /dev/null || true # some controllers may not be writable
  done
}

cgroup_name() { echo "/podsync-e2e-$(cksum <<< "$1" | cut -d' ' -f1)"; }

configuration() {
  cat << END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: $(cat "$1/endpoint")
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: "$1/pki/ca.crt"}}
authorization: {mode: Webhook}
tlsCertFile: $1/pki/node.crt
tlsPrivateKeyFile: $1/pki/node.key
clusterDomain: cluster.local
clusterDNS: [10.96.0.10]
maxPods: 250
END
  machine "$1"
}

# machine prints the fields that each configuration of an agent on this machine needs.
machine() {
  cat << END
resolvConf: $1/resolv.conf
podLogsDir: $1/disk/pods
cgroupDriver: cgroupfs
cgroupRoot: $(cgroup_name "$1")
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
localStorageCapacityIsolation: false
evictionHard: {memory.available: 100Mi} # other programs may have filled the disk
imageGCHighThresholdPercent: 100
END
}

# --- tests and measurements ---

# run runs tests, and fails if one of them fails, or if a test of suite/short.txt does not exist.
run() {
  local dir=$1 name want=1 focus=()
  if [ $# -gt 1 ]; then
    focus=(--focus="$2")
  else
    while read -r name; do
      focus+=(--focus="$(sed 's/[][\.*^$()+?{}|]/\\&/g' <<< "$name")\$")
    done < <(grep -v '^#' "$here/suite/short.txt")
    want=${#focus[@]}
  fi
  if ! nsenter "--net=$dir/net" "$bin/ginkgo" run --procs="$PROCS" --no-color --silence-skips --timeout=1h --json-report=report.json --output-dir="$dir/log" "${focus[@]}" "$bin/e2e.test" -- \
    --kubeconfig="$dir/admin.kubeconfig" --provider=skeleton --num-nodes=1 --minStartupPods=-1 --disable-log-dump > "$dir/log/e2e.log" 2>&1; then
    sed -n '/^Summarizing/,$p' "$dir/log/e2e.log" | grep . || tail -n 20 "$dir/log/e2e.log"
    return 1
  fi
  name=$(grep -E '^Ran [0-9]+ of' "$dir/log/e2e.log")
  echo "$name"
  [ "$(cut -d' ' -f2 <<< "$name")" -ge "$want" ] || die "of $want tests not all were run"
}

# hours tests the agent that node has started, podsync-node or another one.
hours() {
  (cd "$here" && go test -c -o "$1/hours.test" . &&
    PODSYNC_E2E_DIR=$1 PODSYNC_HOURS=${2:-5m} nsenter "--net=$1/net" "$1/hours.test" -test.v -test.timeout 4h -test.run '^TestHostileHours$')
}

# replace starts a kubelet with the files that kubeadm writes, in the directory kubeadm, and replaces it.
# PODSYNC_REPLACE_KUBELET is the kubelet; default one of the version of the tests.
replace() {
  local kubelet=${PODSYNC_REPLACE_KUBELET:-$bin/kubelet}
  [ -x "$kubelet" ] || (cd "$here/suite" && CGO_ENABLED=0 GOFLAGS= GOWORK=off go build -trimpath -ldflags '-s -w' -o "$kubelet" k8s.io/kubernetes/cmd/kubelet)
  stop "$1" kubelet
  program "$1"
  place "$1"
  kubeadm "$1"
  (cd "$here" && go test -c -o "$1/replace.test" . &&
    PODSYNC_E2E_DIR=$1 PODSYNC_REPLACE_KUBELET=$kubelet PODSYNC_REPLACE_NODE=$1/podsync-node \
      nsenter "--net=$1/net" "$1/replace.test" -test.v -test.timeout 30m -test.run '^TestKubeletIsReplaced$')
}

# results compiles the command, so that it runs in the directory to which the paths of the reports are relative.
results() (
  program=$(mktemp)
  trap 'rm -f "$program"' EXIT
  (cd "$here/.." && go build -o "$program" ./e2e/results)
  "$program" "$@"
)

# kubeadm writes the files of a node that "kubeadm join" has configured.
kubeadm() {
  local at=$1/kubeadm
  mkdir -p "$at/manifests"
  kubeconfig "$1/pki" bootstrap | sed 's/user: {client-cert.*/user: {token: e2e000.e2e0000000000000}}]/' > "$at/bootstrap-kubelet.conf"
  echo "KUBELET_KUBEADM_ARGS=\"--container-runtime-endpoint=$(cat "$1/endpoint") --hostname-override=n1 --node-ip=$ADDRESS\"" > "$at/kubeadm-flags.env"
  cat > "$at/config.yaml" << END
apiVersion: kubelet.config.k8s.io/v1beta1
authentication: {anonymous: {enabled: false}, webhook: {cacheTTL: 0s, enabled: true}, x509: {clientCAFile: "$1/pki/ca.crt"}}
authorization: {mode: Webhook, webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging: {flushFrequency: 0, options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}, verbosity: 0}
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
staticPodPath: $at/manifests
END
  machine "$1" >> "$at/config.yaml"
}

soak() {
  (cd "$root" && go run ./internal/rig/e2e/busyboximage /bin/busybox soak > "$1/soak.tar")
  (cd "$here" && go test -c -o "$1/soak.test" . &&
    PODSYNC_E2E_DIR=$1 PODSYNC_SOAK=${2:-20m} nsenter "--net=$1/net" "$1/soak.test" -test.v -test.timeout 26h -test.run '^TestSoak$')
}

measure() {
  (cd "$here" && go test -c -o "$1/measure.test" . && # outside of the namespace, which has no route out
    PODSYNC_E2E_DIR=$1 PODSYNC_E2E_AUDIT=$1/audit.log nsenter "--net=$1/net" "$1/measure.test" -test.v -test.timeout 20m -test.run Measure)
}

# patterns FILE joins the regular expressions of a file in suite with |.
patterns() { grep -v -e '^#' -e '^$' "$here/suite/$1" | paste -sd '|'; }

# settle waits up to a minute until the node has no pods. Tests leave pods that are still stopping; the network
# interfaces of a pod are removed with the pod.
settle() {
  local i
  for ((i = 0; i < 60; i++)); do
    if ! request "$1" /api/v1/pods 2> /dev/null | grep -q '"nodeName":'; then
      return
    fi
    sleep 1
  done
}

# stop DIR NAME ends a process that start has started.
stop() {
  local pid i
  pid=$(cat "$1/$2.pid" 2> /dev/null) || return 0
  kill "$pid" 2> /dev/null || true
  for ((i = 0; i < 100; i++)); do
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.1
  done
  kill -9 "$pid" 2> /dev/null || true
  rm "$1/$2.pid"
}

down() {
  local dir=$1 name
  settle "$dir"
  for name in kubelet kube-scheduler kube-controller-manager kube-apiserver etcd registry; do
    stop "$dir" $name
  done
  "$root/internal/rig/e2e/containerd.sh" down 2.4 "$dir/containerd" || true # the check below prints what is left
  find $CGROUPS -depth -type d -path "*$(cgroup_name "$dir")*" -exec rmdir {} + 2> /dev/null || true
  awk -v dir="$dir/" 'index($2, dir) == 1 {print $2}' /proc/mounts | sort -r | xargs -r -n 1 umount -l 2> /dev/null || true
  ! grep -qF " $dir/" /proc/mounts || die "there are mounts left below $dir, which is not removed"
  rm -rf "$dir"
}

main "$@"
