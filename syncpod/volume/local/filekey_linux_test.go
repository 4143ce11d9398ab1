package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// A FIFO in place of an env file must not block the agent.
func TestFileKeyInAPipe(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "volumes", "kubernetes.io~empty-dir", "data")
	must.Do(t, os.MkdirAll(data, 0o755))
	must.Do(t, syscall.Mkfifo(filepath.Join(data, "env"), 0o644))
	pod := &v1.Pod{Spec: v1.PodSpec{Volumes: []v1.Volume{
		{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
	}}}
	_, err := local.FileKey(pod, dir, &v1.FileKeySelector{VolumeName: "data", Path: "env", Key: "KEY"})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v, want an error with %q", err, "not a regular file")
	}
}
