package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func benchFolder(b *testing.B, files int) *Folder {
	b.Helper()
	f := must.Get(NewFolder(FolderConfig{Path: b.TempDir(), NodeName: "n"}))(b)
	for i := range files {
		name := fmt.Sprint("p", i)
		must.Do(b, os.WriteFile(filepath.Join(f.path, name+".yaml"), []byte(podText(name, "i:1")), 0o600))
	}
	return f
}

// The cost of a folder for an idle agent, for each Rescan.
func BenchmarkFolderRescan(b *testing.B) {
	f := benchFolder(b, 30)
	for b.Loop() {
		if s := f.snapshot(f.scan(always)); len(s.Pods) != 30 {
			b.Fatalf("%d pods, want 30 of them", len(s.Pods))
		}
	}
}

// The time from when a file is renamed into place until its pod is delivered.
func BenchmarkFolderRename(b *testing.B) {
	f := benchFolder(b, 30)
	delivered := make(chan Snapshot)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() {
		_ = f.Run(ctx, func(s Snapshot) {
			select {
			case delivered <- s:
			case <-ctx.Done():
			}
		})
	}()
	<-delivered
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		hidden := filepath.Join(f.path, ".new")
		must.Do(b, os.WriteFile(hidden, []byte(podText("new", fmt.Sprint("i:", i))), 0o600))
		b.StartTimer()
		must.Do(b, os.Rename(hidden, filepath.Join(f.path, "new.yaml")))
		<-delivered
	}
}

func BenchmarkDecode(b *testing.B) {
	f := benchFolder(b, 0)
	text := []byte(podText("a", "i:1"))
	b.ReportAllocs()
	for b.Loop() {
		if m := f.decode("/f", text); len(m.objects) != 1 {
			b.Fatalf("%v, want 1 of them", m.errors)
		}
	}
}
