# Kubernetes' tests of persistent volumes and CSI drivers (sig-storage). suite.sh reads this file.
#
# The program csidriver stands in for the images of the driver and of its sidecars. The driver stores its volumes below
# /var/lib/csi-hostpath-data, as that of the tests does.
#
#   PODSYNC_E2E_SKIP   a regular expression of tests to leave out; default: those of suite/storage-skip.txt

# storage DIR [FOCUS] runs the tests whose names match a regular expression. Its default is suite/storage.txt.
# DIR/storage/report.json has the result of each test.
storage() {
  local dir=$1 focus=${2:-$(patterns storage.txt)} skip status=0
  [ -e "$dir/program" ] || die "no agent runs in $dir: start it with suite.sh node"
  skip=${PODSYNC_E2E_SKIP-$(patterns storage-skip.txt)}
  build_storage
  [ -e "$dir/storage" ] || storage_images "$dir"
  mkdir -p "$dir/storage"
  nsenter "--net=$dir/net" "$bin/ginkgo" run --procs="$PROCS" --no-color --silence-skips --timeout=6h --focus="$focus" ${skip:+--skip="$skip"} \
    --json-report=report.json --output-dir="$dir/storage" "$bin/e2e.test" -- --kubeconfig="$dir/admin.kubeconfig" --provider=skeleton --num-nodes=1 \
    --minStartupPods=-1 --disable-log-dump --kubelet-root-dir="$dir/disk/kubelet" > "$dir/log/storage.log" 2>&1 || status=$?
  sed -n '/^Summarizing/,$p' "$dir/log/storage.log" | grep -E '\[(FAIL|TIMEDOUT|PANICKED|INTERRUPTED)' || true
  grep -E '^(Ran [0-9]+ of|FAIL!|SUCCESS!)' "$dir/log/storage.log" || tail -n 20 "$dir/log/storage.log"
  return $status
}

# build_storage builds csidriver. It runs in images that have no libraries.
build_storage() { (cd "$here/.." && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$bin/csidriver" ./e2e/csidriver); }

# storage_images builds the images that the manifests of the tests name.
storage_images() {
  local dir=$1 name manifests list
  manifests=$(cd "$here/suite" && GOFLAGS= GOWORK=off go list -m -f '{{.Dir}}' k8s.io/kubernetes)/test/e2e/testing-manifests/storage-csi
  list=$(grep -rhoE 'registry\.k8s\.io/(sig-storage|e2e-test-images)/[a-z-]+:[^ ]+' "$manifests/mock" "$manifests/hostpath" | sort -u)
  for name in provisioner attacher resizer; do
    stand_in "$dir" "$(grep "/csi-$name:" <<< "$list")" "$name"
  done
  stand_in "$dir" "$(grep /hostpathplugin: <<< "$list")" driver
  stand_in "$dir" "$(grep /csi-node-driver-registrar: <<< "$list")" registrar
  stand_in "$dir" "$(grep /livenessprobe: <<< "$list")" probe
  stand_in "$dir" "$(grep /csi-snapshotter: <<< "$list")" idle
  image "$dir" "$(grep /busybox: <<< "$list")"
  enter_node "$dir" > "$dir/nsenter"
  image "$dir" "$("$bin/e2e.test" --list-images | grep /e2e-test-images/agnhost: | sort -V | tail -n 1)" -file "agnhost=$bin/agnhost" \
    -file "bin/nsenter=$dir/nsenter" -command pause -- /agnhost
  publish "$dir"
}

# stand_in DIR IMAGE COMMAND
stand_in() { image "$1" "$2" -file "csidriver=$bin/csidriver" -- /csidriver "$3"; }

# enter_node prints an nsenter for the pods in which the tests run commands on the node. The tests want the mount namespace
# of process 1. They get that of the agent: the cluster may have one of its own. A shell is named by its path, because
# busybox runs its own otherwise, with its own losetup.
enter_node() {
  cat << END
#!/bin/sh
shift 2 # --mount=/rootfs/proc/1/ns/mnt --
if [ "\$1" = sh ]; then
  shift
  set -- /bin/sh "\$@"
fi
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec /bin/busybox nsenter --mount=/rootfs/proc/\$(cat /rootfs$1/kubelet.pid)/ns/mnt -- "\$@"
END
}
