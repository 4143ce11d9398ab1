package eviction

import (
	v1 "k8s.io/api/core/v1"
)

// Resources that the API does not have.
const (
	inodes    v1.ResourceName = "inodes"
	processes v1.ResourceName = "pids"
)

// signals returns the node's signals, by precedence.
func signals() []Signal {
	return []Signal{
		MemoryAvailable, AllocatableMemoryAvailable, NodeFSAvailable, NodeFSInodesFree, ImageFSAvailable, ImageFSInodesFree,
		ContainerFSAvailable, ContainerFSInodesFree, PIDAvailable,
	}
}

// ResourceOf returns a node signal's resource: memory, ephemeral-storage, inodes or pids. It returns
// "" for a pod's signal.
func ResourceOf(s Signal) v1.ResourceName {
	switch s {
	case MemoryAvailable, AllocatableMemoryAvailable:
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

// OfDisk reports whether a signal measures a file system: its bytes or its inodes.
func OfDisk(s Signal) bool {
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

// part is one kind among a pod's data on disk.
type part uint8

const (
	rootFS part = 1 << iota
	logs
	volumes
)

// parts returns what in a pod's data are on a signal's file system.
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
		return 0 // images are a pod's only data there
	}
	return rootFS | logs | volumes
}
