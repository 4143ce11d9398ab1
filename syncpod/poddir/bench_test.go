package poddir_test

import (
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

// BenchmarkMounts measures the file operations of a container's start: an unchanged hosts file,
// and a new file for its termination message.
func BenchmarkMounts(b *testing.B) {
	d := must.Get(poddir.New(poddir.Config{Root: b.TempDir()}))(b)
	req := request(webPod(), 0, "10.0.0.7")
	b.ReportAllocs()
	for b.Loop() {
		must.Get(d.Mounts(b.Context(), req))(b)
		req.Attempt++
	}
}
