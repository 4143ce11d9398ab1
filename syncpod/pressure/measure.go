package pressure

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/safepath"
	"github.com/podsync/podsync/syncpod/eviction"
)

const (
	// measurePause is the least time between two measurements of a pod's files, which take
	// no more than a part of the time: restFactor times as long as one took passes before the next.
	measurePause = time.Minute
	restFactor   = 10
)

// A measurer counts what pods have in volumes and logs. It is used by one Look at a time.
type measurer struct {
	podsRoot, logsRoot string
	known              map[types.UID]measured
	// next is when limits are looked at again.
	next time.Time
}

// measured is what a pod had when it was last measured.
type measured struct {
	at      time.Time
	volumes []eviction.VolumeUsage
	logs    map[string]eviction.DiskUsage // by container
}

// due reports whether limits of pods are to be looked at.
func (m *measurer) due(now time.Time) bool {
	return (m.podsRoot != "" || m.logsRoot != "") && !now.Before(m.next)
}

// measure measures pods that were not for a while, and forgets all others.
func (m *measurer) measure(ctx context.Context, pods []Pod, now time.Time) {
	began := time.Now()
	known := map[types.UID]measured{}
	for _, p := range pods {
		last, ok := m.known[p.Pod.UID]
		if !ok || now.Sub(last.at) >= measurePause || now.Before(last.at) {
			last = m.pod(ctx, p.Pod, now)
		}
		if ctx.Err() != nil {
			break
		}
		known[p.Pod.UID] = last
	}
	m.known = known
	m.next = now.Add(max(measurePause, restFactor*time.Since(began)))
}

func (m *measurer) pod(ctx context.Context, pod *v1.Pod, now time.Time) measured {
	of := measured{at: now, logs: map[string]eviction.DiskUsage{}}
	if safepath.Element("metadata.uid", string(pod.UID)) != nil {
		return of
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if kind := directoryOf(v); kind != "" && m.podsRoot != "" && safepath.Element("name", v.Name) == nil {
			at := filepath.Join(m.podsRoot, string(pod.UID), "volumes", kind, v.Name)
			of.volumes = append(of.volumes, eviction.VolumeUsage{Name: v.Name, DiskUsage: used(ctx, at)})
		}
	}
	name := pod.Namespace + "_" + pod.Name + "_" + string(pod.UID)
	if m.logsRoot == "" || safepath.Element("name", name) != nil {
		return of
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if safepath.Element("name", list[i].Name) == nil {
				of.logs[list[i].Name] = used(ctx, filepath.Join(m.logsRoot, name, list[i].Name))
			}
		}
	}
	return of
}

// complete adds what was measured to what was read. If nothing was read of the pod, what
// is on disk is all that is known.
func (m *measurer) complete(pod *v1.Pod, u *eviction.Usage) *eviction.Usage {
	of, ok := m.known[pod.UID]
	if u == nil || !ok {
		return u
	}
	u.Volumes = of.volumes
	for i := range u.Containers {
		u.Containers[i].Logs = of.logs[u.Containers[i].Name]
	}
	return u
}

// directoryOf is the directory of a kind of volume that is on the node's disk, empty for
// any other.
func directoryOf(v *v1.Volume) string {
	switch {
	case v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault:
		return "kubernetes.io~empty-dir"
	case v.ConfigMap != nil:
		return "kubernetes.io~configmap"
	}
	return ""
}

// used counts what is in a directory: no link is followed, no other file system is entered, and
// what has several names counts once. It is not known if any of it cannot be read, but for
// what goes away meanwhile; what is not there is nothing.
func used(ctx context.Context, dir string) eviction.DiskUsage {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return eviction.DiskUsage{Bytes: new(uint64(0)), Inodes: new(uint64(0))}
	}
	if err != nil {
		return eviction.DiskUsage{}
	}
	defer root.Close()
	count := counter{seen: map[uint64]bool{}}
	err = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return count.add(info)
	})
	if err != nil {
		return eviction.DiskUsage{}
	}
	return eviction.DiskUsage{Bytes: &count.bytes, Inodes: &count.inodes}
}

// A counter adds files up.
type counter struct {
	bytes, inodes uint64
	// device is that of the first, seen are the inodes that have several names.
	device uint64
	seen   map[uint64]bool
}

func (c *counter) add(info fs.FileInfo) error {
	bytes, device, inode, names := size(info)
	if c.inodes == 0 {
		c.device = device
	}
	switch {
	case device != c.device && info.IsDir():
		return fs.SkipDir
	case device != c.device || c.seen[inode]:
		return nil
	case names > 1 && !info.IsDir():
		c.seen[inode] = true
	}
	c.bytes, c.inodes = c.bytes+bytes, c.inodes+1
	return nil
}
