package eviction

import (
	v1 "k8s.io/api/core/v1"
)

// A Signal is a measured quantity of a node, named as in the kubelet's configuration.
type Signal string

// The signals, in the order of precedence: memory comes first.
const (
	// MemoryAvailable is memory outside of all working sets.
	MemoryAvailable Signal = "memory.available"
	// NodeFSAvailable and NodeFSInodesFree are of the file system of the agent's directories.
	NodeFSAvailable  Signal = "nodefs.available"
	NodeFSInodesFree Signal = "nodefs.inodesFree"
	// ImageFSAvailable and ImageFSInodesFree are of the file system of images.
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	// ContainerFSAvailable and ContainerFSInodesFree measure the file system with the
	// containers' writable layers. It is the same as the node's or the images', so those
	// thresholds also apply; a kubelet has no thresholds for these signals, a Policy may.
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable is how many more processes and threads can be started.
	PIDAvailable Signal = "pid.available"
)

// Signals of single pods: one of their own limits is exceeded.
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

// signals returns the signals of the node, in order of precedence.
func signals() []Signal {
	return []Signal{
		MemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree,
		ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable,
	}
}

// Resource returns the resource of a signal of the node: memory, ephemeral-storage, inodes or pids.
// It returns "" for a signal of a pod.
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

// Layout says which file systems are the same.
type Layout uint8

const (
	// OneDisk has all.
	OneDisk Layout = iota
	// ImageDisk means that images and writable layers are on a disk other than the node's.
	ImageDisk
	// SplitDisk means that images are on a disk other than the node's, and writable layers on the
	// node's.
	SplitDisk
)

// String describes the layout.
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
