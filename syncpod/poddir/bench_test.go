package poddir_test

import (
	"testing"

	"github.com/podsync/podsync/syncpod/poddir"
)

// BenchmarkMounts measures the file operations of a container's start: an unchanged hosts file,
// and a new file for its termination message.
func BenchmarkMounts(b *testing.B) {
	d, err := poddir.New(poddir.Config{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	req := request(webPod(), 0, "10.0.0.7")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Mounts(b.Context(), req); err != nil {
			b.Fatal(err)
		}
		req.Attempt++
	}
}
