package poddir_test

import (
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

// A container may write to its /etc/hosts. If it makes the file a sparse file of four terabytes, the next start
// is as fast as before, and the next container gets a correct file.
func TestSparseHostsFileIsNotRead(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	want := hostsOf(t, d, request(pod, 0, "10.0.0.7"))
	path := mountsOf(t, d, request(pod, 0, "10.0.0.7"))["/etc/hosts"].HostPath
	size := int64(4 << 40)
	if os.Truncate(path, size) != nil {
		size = 1 << 30 // as large as a file may be here
		must.Do(t, os.Truncate(path, size))
	}
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	again := mountsOf(t, d, request(pod, 1, "10.0.0.7"))["/etc/hosts"].HostPath
	goruntime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
	if info, err := os.Stat(again); err != nil || info.Size() != int64(len(want)) {
		t.Fatalf("it still has %v, %v", info, err)
	}
	if got := hostsOf(t, d, request(pod, 1, "10.0.0.7")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNodeHostsAreBounded(t *testing.T) {
	node := filepath.Join(t.TempDir(), "hosts")
	must.Do(t, errors.Join(os.WriteFile(node, nil, 0o600), os.Truncate(node, 1<<30)))
	d := newDirs(t, poddir.Config{NodeHosts: node})
	pod := webPod()
	pod.Spec.HostNetwork = true
	if _, err := d.Mounts(t.Context(), request(pod, 0)); err == nil || !strings.Contains(err.Error(), "the node's file") {
		t.Errorf("%v, want the node's file named", err)
	}
}

// Of a termination message of a terabyte the end is read.
func TestEndlessMessage(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	path := mountsOf(t, d, request(pod, 0))["/dev/termination-log"].HostPath
	size := int64(1 << 40)
	if os.Truncate(path, size) != nil {
		size = 1 << 30
		must.Do(t, os.Truncate(path, size))
	}
	file := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	defer file.Close()
	must.Get(file.WriteAt([]byte("the end"), size))(t)
	message, err := d.TerminationMessage(pod, &runtime.ContainerStatus{Name: "app", State: runtime.ContainerExited})
	if err != nil || len(message) != 4096 || !strings.HasSuffix(message, "the end") {
		t.Errorf("%d bytes, %v", len(message), err)
	}
}
