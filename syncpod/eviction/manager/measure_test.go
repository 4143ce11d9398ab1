package manager

import (
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
)

func write(t *testing.T, path string, size int) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.Do(t, os.WriteFile(path, make([]byte, size), 0o600))
}

// Targets of links do not count, files with two names count once, and missing files do not
// count.
func TestUsed(t *testing.T) {
	if goruntime.GOOS != "linux" {
		t.Skip("room that files take is known on Linux alone")
	}
	m := measurer{walk: filetree.Walk}
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "big"), 1<<20)
	empty := m.used(t.Context(), dir)
	write(t, filepath.Join(dir, "a", "b", "file"), 100_000)
	must.Do(t, os.Link(filepath.Join(dir, "a", "b", "file"), filepath.Join(dir, "again")))
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "link")))
	got := m.used(t.Context(), dir)
	bytes, inodes := got.bytes-empty.bytes, got.inodes-empty.inodes
	if inodes != 4 || bytes < 100_000 || bytes > 200_000 {
		t.Errorf("%d bytes in %d files", bytes, inodes)
	}
	if none := m.used(t.Context(), filepath.Join(dir, "none")); none != (tree{}) {
		t.Errorf("a missing directory has the usage %+v", none)
	}
	if file := m.used(t.Context(), filepath.Join(dir, "again")); file.err == nil || file.unread != 1 {
		t.Errorf("a file is a directory: %+v", file)
	}
}

// A pod is measured once a minute, and one whose UID is no name not at all.
func TestMeasurePaces(t *testing.T) {
	root := t.TempDir()
	m := measurer{podsRoot: root, logsRoot: filepath.Join(root, "logs"), walk: filetree.Walk, known: map[types.UID]measured{}}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Containers: []v1.Container{{Name: "app"}},
		Volumes:    []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
	}}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u"
	uses := func(at time.Time) *eviction.Usage {
		m.measure(t.Context(), []Pod{{Pod: pod}}, at)
		return m.complete(pod, &eviction.Usage{Containers: []eviction.ContainerUsage{{Name: "app"}}})
	}
	now := time.Now()
	if u := uses(now); *u.Volumes[0].Bytes != 0 || *u.Containers[0].Logs.Bytes != 0 {
		t.Errorf("%+v, want 0 and 0", u)
	}
	write(t, filepath.Join(root, "u", "volumes", "kubernetes.io~empty-dir", "v", "file"), 10_000)
	write(t, filepath.Join(root, "logs", "default_web_u", "app", "0.log"), 10_000)
	if u := uses(now.Add(59 * time.Second)); *u.Volumes[0].Bytes != 0 {
		t.Errorf("measured again: %d", *u.Volumes[0].Bytes)
	}
	if u := uses(now.Add(61 * time.Second)); *u.Volumes[0].Bytes < 10_000 || *u.Containers[0].Logs.Bytes < 10_000 {
		t.Errorf("%+v, want at least 10_000 and at least 10_000", u)
	}
	pod.UID = "../u"
	if u := uses(now.Add(2 * time.Minute)); len(u.Volumes) > 0 {
		t.Errorf("%+v, want no Volumes", u)
	}
}

// The logs of containers that have ended, init and ephemeral ones, are the pod's.
func TestLogsOfEndedContainersCount(t *testing.T) {
	root := t.TempDir()
	m := measurer{logsRoot: root, walk: filetree.Walk}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "app"}},
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u"
	for _, name := range []string{"init", "app", "debug"} {
		write(t, filepath.Join(root, "default_web_u", name, "0.log"), 10_000)
	}
	m.measure(t.Context(), []Pod{{Pod: pod}}, time.Now())
	u := m.complete(pod, &eviction.Usage{Containers: []eviction.ContainerUsage{{Name: "app"}}})
	if len(u.Containers) != 3 {
		t.Fatalf("%+v, want 3 containers", u.Containers)
	}
	for _, c := range u.Containers {
		if c.Logs.Bytes == nil || *c.Logs.Bytes < 10_000 {
			t.Errorf("container %s: %+v, want at least 10,000 bytes of logs", c.Name, c)
		}
	}
}

func TestReadings(t *testing.T) {
	number := func(n uint64) *uint64 { return &n }
	now := time.Unix(1000, 0)
	disk := func(device, available uint64) *stats.FS {
		return &stats.FS{Device: device, AvailableBytes: number(available), CapacityBytes: number(100), Inodes: number(10), InodesFree: number(5)}
	}
	n := stats.Node{
		Memory:     &stats.Memory{Time: now, AvailableBytes: number(3), WorkingSetBytes: number(4)},
		PodsMemory: &stats.Memory{Time: now, AvailableBytes: number(1), WorkingSetBytes: number(9)},
		FS:         disk(1, 50), ImageFS: disk(2, 60), ContainerFS: disk(1, 50),
		Rlimit: &stats.Rlimit{NumOfRunningProcesses: number(90), MaxPID: number(80)},
	}
	got := map[eviction.Signal]eviction.Reading{}
	for _, r := range readings(n, now) {
		got[r.Signal] = r
	}
	for s, want := range map[eviction.Signal][2]uint64{
		eviction.MemoryAvailable: {3, 7}, eviction.AllocatableMemoryAvailable: {1, 10}, eviction.NodeFSAvailable: {50, 100}, eviction.NodeFSInodesFree: {5, 10},
		eviction.ImageFSAvailable: {60, 100}, eviction.ContainerFSAvailable: {50, 100}, eviction.PIDAvailable: {0, 80},
	} {
		if r := got[s]; r.Available != want[0] || r.Capacity != want[1] || !r.Time.Equal(now) {
			t.Errorf("%s: %+v, want %v", s, r, want)
		}
	}
	if l := layout(n); l != eviction.SplitDisk {
		t.Errorf("layout %v, want %v", l, eviction.SplitDisk)
	}
	if n.ContainerFS = disk(2, 60); layout(n) != eviction.ImageDisk {
		t.Errorf("layout %v, want %v", layout(n), eviction.ImageDisk)
	}
	if n.ImageFS = disk(1, 60); layout(n) != eviction.OneDisk {
		t.Errorf("layout %v, want %v", layout(n), eviction.OneDisk)
	}
	if none := readings(stats.Node{Memory: &stats.Memory{}, FS: &stats.FS{}}, now); len(none) > 0 {
		t.Errorf("of nothing %v, want no none", none)
	}
}
