package eviction

import (
	v1 "k8s.io/api/core/v1"
)

// A Signal is what is watched of a node, by the name that it has in the configuration of
// a kubelet.
type Signal string

// The signals, in the order in which they count: what is short of memory comes first.
const (
	// MemoryAvailable is memory that is not in the working set of anything.
	MemoryAvailable Signal = "memory.available"
	// NodeFSAvailable and NodeFSInodesFree are of the file system of the agent's directories.
	NodeFSAvailable  Signal = "nodefs.available"
	NodeFSInodesFree Signal = "nodefs.inodesFree"
	// ImageFSAvailable and ImageFSInodesFree are of the file system of images.
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	// ContainerFSAvailable and ContainerFSInodesFree are of the file system of what
	// containers write. As that is also the node's or that of images, their thresholds
	// hold there anyway: a kubelet heeds none for these, a Policy may have some.
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable is how many processes and threads may yet be started.
	PIDAvailable Signal = "pid.available"
)

// Signals of single pods, which are no matter of the node: a limit of theirs is exceeded.
const (
	EmptyDirLimit  Signal = "emptydirfs.limit"
	PodLimit       Signal = "ephemeralpodfs.limit"
	ContainerLimit Signal = "ephemeralcontainerfs.limit"
)

// Resources that are no resources of the API.
const (
	inodes    v1.ResourceName = "inodes"
	processes v1.ResourceName = "pids"
)

// signals are those of the node, in their order.
func signals() []Signal {
	return []Signal{
		MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree,
		ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable,
	}
}

// Resource is what the node is short of, empty for a signal that is not one of a node: memory,
// ephemeral-storage, inodes or pids.
func (s Signal) Resource() v1.ResourceName {
	switch s {
	case MemoryAvailable:
		return v1.ResourceMemory
	case NodeFSAvailable, ImageFSAvailable, ContainerFSAvailable:
		return v1.ResourceEphemeralStorage
	case NodeFSInodesFree, ImageFSInodesFree, ContainerFSInodesFree:
		return inodes
	case PIDAvailable:
		return processes
	}
	return ""
}

// OfDisk reports whether the node is short of room on a file system, or of its inodes.
func (s Signal) OfDisk() bool {
	name := s.Resource()
	return name == v1.ResourceEphemeralStorage || name == inodes
}

// Layout says which file systems are one and the same.
type Layout uint8

const (
	// OneDisk has all.
	OneDisk Layout = iota
	// ImageDisk is one beside the node's, with the images and what containers write.
	ImageDisk
	// SplitDisk is one beside the node's, with the images; what containers write is on the
	// node's.
	SplitDisk
)

// String returns what it is in words.
func (l Layout) String() string {
	switch l {
	case ImageDisk:
		return "images and containers on a disk of their own"
	case SplitDisk:
		return "images on a disk of their own"
	}
	return "one disk"
}

// part is something on disk that belongs to a pod.
type part uint8

const (
	rootFS part = 1 << iota
	logs
	volumes
)

// parts are what of a pod is on the file system of a signal.
func (l Layout) parts(s Signal) part {
	images := s == ImageFSAvailable || s == ImageFSInodesFree
	containers := s == ContainerFSAvailable || s == ContainerFSInodesFree
	switch {
	case l == OneDisk:
		return rootFS | logs | volumes
	case l == ImageDisk && (images || containers):
		return rootFS
	case l == ImageDisk:
		return logs | volumes
	case images:
		return 0 // a pod has nothing there but images
	}
	return rootFS | logs | volumes
}
