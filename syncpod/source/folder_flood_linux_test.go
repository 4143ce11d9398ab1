package source

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A process that may write to the folder floods it: with files that appear and disappear, with names of any length and
// bytes, and with links, pipes and devices. A manifest is read nevertheless, and its change, in bounded memory.
func TestFloodOfAFolder(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"loop.yaml": "loop.yaml", "zero.yaml": "/dev/zero", "tty.yaml": "/dev/tty", "dir.yaml": "/proc/self/fd", "mem.yaml": "/proc/self/mem", "kmsg.yaml": "/proc/kmsg"} {
		must.Do(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "fifo.yaml"), 0o600))
	must.Do(t, syscall.Mknod(filepath.Join(dir, "socket.yaml"), syscall.S_IFSOCK|0o600, 0))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "deep.yaml", strings.Repeat("d/", 500)), 0o700))
	f := must.Get(NewFolder(FolderConfig{Path: dir, NodeName: "n", Rescan: time.Hour}))(t)
	snapshots := make(chan Snapshot)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx, func(s Snapshot) {
			select {
			case snapshots <- s:
			case <-ctx.Done():
			}
		}); err != nil {
			t.Error(err)
		}
	})
	for _, kind := range []string{"written in place", "renamed", "removed"} {
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("%s-%d-\x1b[2J\n\xff%s.yaml", kind[:3], i%1000, strings.Repeat("x", 200))
				path := filepath.Join(dir, name)
				_ = os.WriteFile(path, []byte("{"), 0o600) // the disk may be full
				switch kind {
				case "renamed":
					_ = os.Rename(path, filepath.Join(dir, "moved.yaml"))
				case "removed":
					_ = os.Remove(path)
				}
				if i%100 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	largest := uint64(0)
	wait := func(name, image string) {
		t.Helper()
		text := podText(strings.TrimSuffix(name, ".yaml"), image)
		must.Do(t, os.WriteFile(filepath.Join(dir, ".new"), []byte(text), 0o600))
		must.Do(t, os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
		deadline := time.After(time.Minute)
		for {
			select {
			case s := <-snapshots:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				largest = max(largest, m.HeapInuse)
				for _, err := range append(s.Errors, s.Warnings...) {
					if text := err.Error(); len(text) > 4<<10 || strings.ContainsAny(text, "\x1b\n") {
						t.Errorf("an error of %d bytes: %.200q", len(text), text)
						return
					}
				}
				if hasPod(strings.TrimSuffix(name, ".yaml")+"-n", image)(s) {
					return
				}
			case <-deadline:
				t.Fatalf("%s is not read", image)
			}
		}
	}
	for i := range 3 {
		wait("good.yaml", fmt.Sprintf("good:%d", i))
	}
	cancel()
	running.Wait()
	if largest > before.HeapInuse+64<<20 {
		t.Errorf("the heap grew to %d MiB", largest>>20)
	}
}
