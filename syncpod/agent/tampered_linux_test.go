package agent_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/rig/testnode"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/resize"
	"github.com/podsync/podsync/syncpod/source"
)

// tampers are what a container with Root as a hostPath makes of a file of the agent.
var tampers = map[string]func(path, victim string) error{
	"huge": func(path, _ string) error {
		if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
			return err
		}
		return os.Truncate(path, 1<<40)
	},
	"FIFO":      func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
	"link":      func(path, victim string) error { return os.Symlink(victim, path) },
	"zeros":     func(path, _ string) error { return os.Symlink("/dev/zero", path) },
	"loop":      func(path, _ string) error { return os.Symlink(path, path) },
	"socket":    func(path, _ string) error { return syscall.Mknod(path, syscall.S_IFSOCK|0o600, 0) },
	"directory": func(path, _ string) error { return os.MkdirAll(filepath.Join(path, "a", "b"), 0o700) },
	"empty":     text(""),
	"null":      text("null"),
	"list":      text("[]"),
	"cut":       text(`{"version": 1, "pod": {"`),
	"types":     text(`{"version": "x", "uid": {}, "UID": [], "name": 1, "image": {}, "status": 1, "pod": [], "containers": 7, "repositories": []}`),
	"nested":    text(strings.Repeat("[", 4<<20-1)),
	"objects":   text(strings.Repeat(`{"status":`, 400<<10-1)),
	"numbers":   text(`{"version": 1e999999999, "deadline": "0000-99-99", "status": {"startTime": "x"}}`),
	"names":     text(fmt.Sprintf(`{"image": %q, "uid": "../../x", "status": {"phase": %[1]q}}`, strings.Repeat("x", 3<<20))),
}

func text(s string) func(string, string) error {
	return func(path, _ string) error { return os.WriteFile(path, []byte(s), 0o600) }
}

// An agent whose files on the disk were tampered with, each in each way, starts in bounded memory, keeps the pod that
// runs, and runs a new one.
func TestTamperedRecords(t *testing.T) {
	for name, tamper := range tampers {
		t.Run(name, func(t *testing.T) {
			inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
				dir := t.TempDir()
				root, victim := filepath.Join(dir, "root"), filepath.Join(dir, "victim")
				const precious = `{"precious": true}`
				n.Must(os.WriteFile(victim, []byte(precious), 0o600))
				old, fresh := testnode.Pod("api", "old", "old", "sleep infinity"), testnode.Pod("api", "fresh", "fresh", "sleep infinity")
				for _, pod := range []*v1.Pod{old, fresh} {
					pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
				}
				run := func(pods ...*v1.Pod) *running {
					from := source.NewPush()
					n.Must(from.Set(pods...))
					return n.start([]source.Source{from}, func(c *agent.Config) {
						c.Root = root
						allocator, err := resize.New(resize.Config{State: filepath.Join(root, "allocations"), Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("8")}})
						n.Must(err)
						c.Sync.Extensions.Allocations = allocator
					})
				}
				first := run(old)
				time.Sleep(time.Minute)
				first.stop()
				instances := fmt.Sprint(n.Status("old").Containers)
				var files []string
				n.Must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
					if err == nil && d.Type().IsRegular() {
						files = append(files, path)
					}
					return err
				}))
				kinds := map[string]bool{}
				for _, file := range files {
					kinds[strings.Split(strings.TrimPrefix(file, root+"/"), "/")[0]] = true
					n.Must(os.Remove(file))
					n.Must(tamper(file, victim))
					n.Must(tamper(filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp"), victim)) // where the next one is written first
				}
				for _, kind := range []string{"records", "statuses", "images", "allocations"} {
					if !kinds[kind] {
						t.Fatalf("no file of %s in %v", kind, files)
					}
				}
				before := allocated()
				second := run(old, fresh)
				time.Sleep(10 * time.Minute)
				if grown := allocated() - before; grown > 256<<20 {
					t.Errorf("%d MiB were allocated in ten minutes", grown>>20)
				}
				for _, uid := range []types.UID{"old", "fresh"} {
					if status := second.sink.of(uid); status.Phase != v1.PodRunning {
						t.Errorf("pod %s: %+v", uid, status)
					}
				}
				if now := fmt.Sprint(n.Status("old").Containers); strings.Count(now, "app") != strings.Count(instances, "app") {
					t.Errorf("the pod was started again: %s, before %s", now, instances)
				}
				if text, err := os.ReadFile(victim); err != nil || string(text) != precious {
					t.Errorf("a file of others: %q, %v", text, err)
				}
			})
		})
	}
}

// allocated returns how many bytes were ever allocated.
func allocated() uint64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.TotalAlloc
}
