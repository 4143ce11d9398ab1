package manager

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod/eviction"
)

// readings converts the node's stats to readings. Unknown values are left out.
func readings(n stats.Node, now time.Time) (list []eviction.Reading) {
	add := func(s eviction.Signal, available, capacity *uint64, at time.Time) {
		if available != nil && capacity != nil {
			list = append(list, eviction.Reading{Signal: s, Available: *available, Capacity: *capacity, Time: at})
		}
	}
	for _, memory := range []struct {
		of     *stats.Memory
		signal eviction.Signal
	}{{n.Memory, eviction.MemoryAvailable}, {n.PodsMemory, eviction.AllocatableMemoryAvailable}} {
		if m := memory.of; m != nil && m.AvailableBytes != nil && m.WorkingSetBytes != nil {
			add(memory.signal, m.AvailableBytes, new(*m.AvailableBytes+*m.WorkingSetBytes), m.Time)
		}
	}
	for _, fs := range []struct {
		of            *stats.FS
		bytes, inodes eviction.Signal
	}{
		{n.FS, eviction.NodeFSAvailable, eviction.NodeFSInodesFree},
		{n.ImageFS, eviction.ImageFSAvailable, eviction.ImageFSInodesFree},
		{n.ContainerFS, eviction.ContainerFSAvailable, eviction.ContainerFSInodesFree},
	} {
		if fs.of == nil {
			continue
		}
		// The reading of the file system is from now, whenever the runtime has counted its own usage.
		add(fs.bytes, fs.of.AvailableBytes, fs.of.CapacityBytes, now)
		if fs.of.Inodes != nil && *fs.of.Inodes > 0 { // some file systems do not count inodes
			add(fs.inodes, fs.of.InodesFree, fs.of.Inodes, now)
		}
	}
	if r := n.Rlimit; r != nil && r.NumOfRunningProcesses != nil && r.MaxPID != nil {
		add(eviction.PIDAvailable, new(*r.MaxPID-min(*r.NumOfRunningProcesses, *r.MaxPID)), r.MaxPID, now)
	}
	return list
}

// layout returns which file systems are the same. Unknown ones count as the node's.
func layout(n stats.Node) eviction.Layout {
	other := func(fs *stats.FS) bool {
		return fs != nil && n.FS != nil && fs.Device != 0 && n.FS.Device != 0 && fs.Device != n.FS.Device
	}
	switch {
	case !other(n.ImageFS):
		return eviction.OneDisk
	case other(n.ContainerFS):
		return eviction.ImageDisk
	}
	return eviction.SplitDisk
}

// usageOf returns a pod's usage, nil if unknown.
func usageOf(read []stats.Pod, uid types.UID) *eviction.Usage {
	for i := range read {
		p := &read[i]
		if p.UID != uid {
			continue
		}
		u := &eviction.Usage{Processes: p.Processes, MemoryBytes: workingSet(p.Memory)}
		for _, c := range slices.Concat(p.Containers, p.Exited) {
			usage := eviction.ContainerUsage{Name: c.Name, MemoryBytes: workingSet(c.Memory)}
			if c.RootFS != nil {
				usage.RootFS = eviction.DiskUsage{Bytes: c.RootFS.UsedBytes, Inodes: c.RootFS.InodesUsed}
			}
			u.Containers = append(u.Containers, usage)
		}
		if u.MemoryBytes == nil && len(u.Containers) == 0 {
			return nil
		}
		return u
	}
	return nil
}

func workingSet(m *stats.Memory) *uint64 {
	if m == nil {
		return nil
	}
	return m.WorkingSetBytes
}
