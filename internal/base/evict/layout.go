package evict

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// Resources that the API does not have.
const (
	inodes    v1.ResourceName = "inodes"
	processes v1.ResourceName = "pids"
)

// signals returns the signals of the node, in order of precedence.
func signals() []eviction.Signal {
	return []eviction.Signal{
		eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.NodeFSAvailable, eviction.NodeFSInodesFree, eviction.ImageFSAvailable, eviction.ImageFSInodesFree,
		eviction.ContainerFSAvailable, eviction.ContainerFSInodesFree, eviction.PIDAvailable,
	}
}

// ResourceOf returns the resource of a signal of the node: memory, ephemeral-storage, inodes or pids.
// It returns "" for a signal of a pod.
func ResourceOf(s eviction.Signal) v1.ResourceName {
	switch s {
	case eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable:
		return v1.ResourceMemory
	case eviction.NodeFSAvailable, eviction.ImageFSAvailable, eviction.ContainerFSAvailable:
		return v1.ResourceEphemeralStorage
	case eviction.NodeFSInodesFree, eviction.ImageFSInodesFree, eviction.ContainerFSInodesFree:
		return inodes
	case eviction.PIDAvailable:
		return processes
	}
	return ""
}

// OfDisk reports whether a signal measures a file system: its bytes or its inodes.
func OfDisk(s eviction.Signal) bool {
	name := ResourceOf(s)
	return name == v1.ResourceEphemeralStorage || name == inodes
}

// Layout is which file systems are the same.
type Layout uint8

const (
	// OneDisk means that everything is on one file system.
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

// part is a kind of a pod's data on disk.
type part uint8

const (
	rootFS part = 1 << iota
	logs
	volumes
)

// parts returns the parts of a pod's data that are on the file system of a signal.
func (l Layout) parts(s eviction.Signal) part {
	images := s == eviction.ImageFSAvailable || s == eviction.ImageFSInodesFree
	containers := s == eviction.ContainerFSAvailable || s == eviction.ContainerFSInodesFree
	switch {
	case l == OneDisk:
		return rootFS | logs | volumes
	case l == ImageDisk && (images || containers):
		return rootFS
	case l == ImageDisk:
		return logs | volumes
	case images:
		return 0 // images are a pod's only data there
	}
	return rootFS | logs | volumes
}
