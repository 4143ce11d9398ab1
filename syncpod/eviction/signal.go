package eviction

// A Signal is a measured node quantity, named as in the kubelet's configuration.
type Signal string

// The signals, by precedence: memory comes first.
const (
	// MemoryAvailable is memory outside all working sets.
	MemoryAvailable Signal = "memory.available"
	// AllocatableMemoryAvailable is memory below the limit for the cgroup with all pods, outside their working sets. It
	// is unknown if the agent does not limit that cgroup.
	AllocatableMemoryAvailable Signal = "allocatableMemory.available"
	// NodeFSAvailable and NodeFSInodesFree are for the file system with the agent's
	// directories.
	NodeFSAvailable  Signal = "nodefs.available"
	NodeFSInodesFree Signal = "nodefs.inodesFree"
	// ImageFSAvailable and ImageFSInodesFree are for the file system with
	// images.
	ImageFSAvailable  Signal = "imagefs.available"
	ImageFSInodesFree Signal = "imagefs.inodesFree"
	// ContainerFSAvailable and ContainerFSInodesFree measure the file system with the containers'
	// writable layers. It is either the node's or the images' file system, so that one's thresholds
	// also apply. A kubelet does not accept thresholds for these signals; a Policy does.
	ContainerFSAvailable  Signal = "containerfs.available"
	ContainerFSInodesFree Signal = "containerfs.inodesFree"
	// PIDAvailable counts the further processes and threads that can be started.
	PIDAvailable Signal = "pid.available"
)

// Single pods' signals: one own limit is exceeded.
const (
	EmptyDirLimit  Signal = "emptydirfs.limit"
	PodLimit       Signal = "ephemeralpodfs.limit"
	ContainerLimit Signal = "ephemeralcontainerfs.limit"
)
