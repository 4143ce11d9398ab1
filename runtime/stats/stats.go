package stats

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Stats is what is used on a node. What is nil in it is not known.
type Stats struct {
	Node Node
	// Pods are in the order in which they were asked for.
	Pods []Pod
}

// Node is what a node uses as a whole.
type Node struct {
	// BootTime is when its kernel was started, zero if that is not known.
	BootTime time.Time
	CPU      *CPU
	Memory   *Memory
	Network  *Network
	// FS is the file system of Config.Dir, ImageFS that of the runtime's images and
	// ContainerFS that of the layers that containers write to.
	FS, ImageFS, ContainerFS *FS
	// Processes is how many processes and threads there are, MaxProcesses how many there
	// may be. ReadNode alone tells them.
	Processes, MaxProcesses *uint64
}

// Pod is what a pod uses.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// StartTime is when its sandbox was created.
	StartTime time.Time
	CPU       *CPU
	Memory    *Memory
	// Processes is how many processes and threads it has, if the runtime tells.
	Processes *uint64
	// Network is nil for a pod on the network of the node.
	Network *Network
	// Containers are those that run, in the order of their names.
	Containers []Container
	// Exited has, for each container of which no instance runs, the newest instance that has ended, if the runtime
	// reports its writable layer, as containerd does until it is removed. Only Name, ID, StartTime and RootFS are set.
	Exited []Container

	summed bool // its CPU is that of its containers
}

// Container is what one instance of a container uses.
type Container struct {
	Name string
	ID   runtime.ContainerID
	// StartTime is when it was started.
	StartTime time.Time
	CPU       *CPU
	Memory    *Memory
	// RootFS is the layer that it writes to, and the file system of that.
	RootFS *FS
}

// CPU is time spent on processors. As JSON this and the types below are those of the
// kubelet's stats API.
type CPU struct {
	// Time is when it was read.
	Time time.Time `json:"time"`
	// UsageNanoCores is how much is spent at present: 1e9 is one processor.
	UsageNanoCores *uint64 `json:"usageNanoCores,omitempty"`
	// UsageCoreNanoSeconds is what has been spent since the start, in nanoseconds.
	UsageCoreNanoSeconds *uint64 `json:"usageCoreNanoSeconds,omitempty"`
}

// Memory is memory in use, in bytes.
type Memory struct {
	// Time is when it was read.
	Time time.Time `json:"time"`
	// AvailableBytes is what is left of the limit, nil if there is none. Of a container
	// without a limit containerd tells 0.
	AvailableBytes *uint64 `json:"availableBytes,omitempty"`
	// UsageBytes is all of it, with the cache of files.
	UsageBytes *uint64 `json:"usageBytes,omitempty"`
	// WorkingSetBytes is UsageBytes without what of the cache is inactive.
	WorkingSetBytes *uint64 `json:"workingSetBytes,omitempty"`
	// RSSBytes is memory that no file stands behind.
	RSSBytes *uint64 `json:"rssBytes,omitempty"`
	// PageFaults and MajorPageFaults are counted from the start.
	PageFaults      *uint64 `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64 `json:"majorPageFaults,omitempty"`
}

// Network is what went over the interfaces of a network namespace since its start.
type Network struct {
	// Time is when it was read.
	Time time.Time `json:"time"`
	// Interface is the one called eth0, with an empty name if there is none.
	Interface
	// Interfaces are all, that one included.
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// Interface is what went over one interface.
type Interface struct {
	Name     string  `json:"name"`
	RxBytes  *uint64 `json:"rxBytes,omitempty"`
	RxErrors *uint64 `json:"rxErrors,omitempty"`
	TxBytes  *uint64 `json:"txBytes,omitempty"`
	TxErrors *uint64 `json:"txErrors,omitempty"`
}

// FS is how full a file system is, and how much of it is used by what is asked about.
type FS struct {
	// Time is when it was read.
	Time           time.Time `json:"time"`
	AvailableBytes *uint64   `json:"availableBytes,omitempty"`
	CapacityBytes  *uint64   `json:"capacityBytes,omitempty"`
	UsedBytes      *uint64   `json:"usedBytes,omitempty"`
	InodesFree     *uint64   `json:"inodesFree,omitempty"`
	Inodes         *uint64   `json:"inodes,omitempty"`
	InodesUsed     *uint64   `json:"inodesUsed,omitempty"`
	// Device is the same for what is on the same file system, 0 if it is not known.
	Device uint64 `json:"-"`
}

func (c *CPU) known() bool    { return c != nil && c.UsageCoreNanoSeconds != nil }
func (m *Memory) known() bool { return m != nil && m.WorkingSetBytes != nil }
