package stats

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Stats is a node's resource usage. A nil figure is unknown.
type Stats struct {
	Node Node
	// Pods are in the call's order.
	Pods []Pod
}

// Node is the resource usage of the node as a whole.
type Node struct {
	// BootTime is when the node's kernel started, zero if unknown.
	BootTime time.Time
	CPU      *CPU
	Memory   *Memory
	Network  *Network
	// FS is the file system of Config.Dir. ImageFS stores the runtime's images, ContainerFS the containers' writable
	// layers.
	FS, ImageFS, ContainerFS *FS
	// Rlimit is nil after ReadCPUAndMemory.
	Rlimit *Rlimit
	// PodsMemory is the memory in the cgroup for all pods, nil if it is unknown. Only ReadNode sets it.
	PodsMemory *Memory
}

// Pod is a pod's resource usage.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// StartTime is when the pod's sandbox was created.
	StartTime time.Time
	CPU       *CPU
	Memory    *Memory
	// Processes counts processes and threads, nil if the runtime does not report it.
	Processes *uint64
	// Network is nil for a pod on the node's network.
	Network *Network
	// Containers are the running containers, sorted by name.
	Containers []Container
	// Exited holds, for each container without a running instance, the newest instance that has
	// exited, if the runtime reports its writable layer, as containerd does until the instance is
	// removed. Only Name, ID, StartTime and RootFS are set.
	Exited []Container

	summed bool // CPU is the sum over the containers
}

// Container is the resource usage of one container instance.
type Container struct {
	Name string
	ID   runtime.ContainerID
	// StartTime is when the instance was started.
	StartTime time.Time
	CPU       *CPU
	Memory    *Memory
	// RootFS is the writable layer's usage, with its file system's capacity.
	RootFS *FS
}

// CPU is CPU time. The JSON for this type and those below follows the kubelet's stats API.
type CPU struct {
	// Time is when the figures were read.
	Time time.Time `json:"time"`
	// UsageNanoCores is the current rate: 1e9 is one CPU.
	UsageNanoCores *uint64 `json:"usageNanoCores,omitempty"`
	// UsageCoreNanoSeconds is the CPU time used since the start, in nanoseconds.
	UsageCoreNanoSeconds *uint64 `json:"usageCoreNanoSeconds,omitempty"`
}

// Rlimit is how many processes and threads the node has, and their limit.
type Rlimit struct {
	// Time is when the figures were read.
	Time time.Time `json:"time"`
	// MaxPID is the lower of the kernel's two limits, pid_max and threads-max.
	MaxPID *uint64 `json:"maxpid,omitempty"`
	// NumOfRunningProcesses counts the processes and threads, including those that sleep.
	NumOfRunningProcesses *uint64 `json:"curproc,omitempty"`
}

// Memory is memory in use, in bytes.
type Memory struct {
	// Time is when the figures were read.
	Time time.Time `json:"time"`
	// AvailableBytes is the limit minus the working set, nil without a limit. For a container
	// without a limit, containerd reports 0.
	AvailableBytes *uint64 `json:"availableBytes,omitempty"`
	// UsageBytes is all memory in use, page cache included.
	UsageBytes *uint64 `json:"usageBytes,omitempty"`
	// WorkingSetBytes is UsageBytes without the page cache's inactive part.
	WorkingSetBytes *uint64 `json:"workingSetBytes,omitempty"`
	// RSSBytes is anonymous memory.
	RSSBytes *uint64 `json:"rssBytes,omitempty"`
	// PageFaults and MajorPageFaults count from the start.
	PageFaults      *uint64 `json:"pageFaults,omitempty"`
	MajorPageFaults *uint64 `json:"majorPageFaults,omitempty"`
}

// Network is a network namespace's traffic since its creation.
type Network struct {
	// Time is when the figures were read.
	Time time.Time `json:"time"`
	// Interface is eth0. Its name is empty if there is no eth0.
	Interface
	// Interfaces are all interfaces, eth0 included.
	Interfaces []Interface `json:"interfaces,omitempty"`
}

// Interface is one interface's traffic.
type Interface struct {
	Name     string  `json:"name"`
	RxBytes  *uint64 `json:"rxBytes,omitempty"`
	RxErrors *uint64 `json:"rxErrors,omitempty"`
	TxBytes  *uint64 `json:"txBytes,omitempty"`
	TxErrors *uint64 `json:"txErrors,omitempty"`
	// Packets and dropped packets are only known if the kernel reports the interface, and not if the runtime does.
	RxPackets *uint64 `json:"-"`
	RxDropped *uint64 `json:"-"`
	TxPackets *uint64 `json:"-"`
	TxDropped *uint64 `json:"-"`
}

// FS is a file system's capacity, and how much the subject uses.
type FS struct {
	// Time is when the figures were read.
	Time           time.Time `json:"time"`
	AvailableBytes *uint64   `json:"availableBytes,omitempty"`
	CapacityBytes  *uint64   `json:"capacityBytes,omitempty"`
	UsedBytes      *uint64   `json:"usedBytes,omitempty"`
	InodesFree     *uint64   `json:"inodesFree,omitempty"`
	Inodes         *uint64   `json:"inodes,omitempty"`
	InodesUsed     *uint64   `json:"inodesUsed,omitempty"`
	// Device is equal for paths on the same file system, 0 if unknown.
	Device uint64 `json:"-"`
}

func (c *CPU) known() bool    { return c != nil && c.UsageCoreNanoSeconds != nil }
func (m *Memory) known() bool { return m != nil && m.WorkingSetBytes != nil }
