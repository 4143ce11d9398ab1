package eviction

// A Signal is a measured quantity of a node, named as in the kubelet's configuration.
type Signal string

// The signals, in the order of precedence: memory comes first.
const (
	// MemoryAvailable is memory outside of all working sets.
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is memory below the limit for the cgroup of all pods, outside of their working sets. It
	// is unknown if the agent does not limit that cgroup.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	// NodeFSAvailable and NodeFSInodesFree are of the file system of the agent's directories.
	NodeFSAvailable  Signal = "nodefs.available"
	NodeFSInodesFree Signal = "nodefs.inodesFree"
	// ImageFSAvailable and ImageFSInodesFree are of the file system of images.
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	// ContainerFSAvailable and ContainerFSInodesFree measure the file system with the containers'
	// writable layers. It is either the node's or the images' file system, so the thresholds of that
	// one also apply. A kubelet does not accept thresholds for these signals; a Policy does.
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable is the number of further processes and threads that can be started.
	PIDAvailable Signal = "pid.available"
)

// Signals of single pods: one of their own limits is exceeded.
const (
	EmptyDirLimit  Signal = "emptydirfs.limit"
	PodLimit       Signal = "ephemeralpodfs.limit"
	ContainerLimit Signal = "ephemeralcontainerfs.limit"
)
