package eviction

import (
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
)

// Candidate is a running pod and its usage.
type Candidate struct {
	// Pod is not modified. Required.
	Pod *v1.Pod
	// Usage is nil if unknown.
	Usage *Usage
}

// Usage is a pod's resource usage. Nil values are unknown.
type Usage struct {
	// MemoryBytes is the working set.
	MemoryBytes *uint64
	// Processes counts processes and threads.
	Processes *uint64
	// Containers are the running containers, and exited ones that have logs or a writable layer.
	Containers []ContainerUsage
	// Volumes are the volumes on the node's disk.
	Volumes []VolumeUsage
	// Files are other files in the pod on the node, such as its /etc/hosts and termination messages
	// (CVE-2020-8557).
	Files DiskUsage
}

// ContainerUsage is a container's resource usage.
type ContainerUsage struct {
	Name string
	// MemoryBytes is the working set.
	MemoryBytes *uint64
	// RootFS is the writable layer, Logs the container's logs.
	RootFS, Logs DiskUsage
}

// VolumeUsage is a volume's usage.
type VolumeUsage struct {
	Name string
	DiskUsage
}

// DiskUsage is how much disk is used.
type DiskUsage struct {
	Bytes, Inodes *uint64
	// Unmeasurable means that the usage is at least this, and that the pod has created files that
	// cannot all be counted. It exceeds any limit.
	Unmeasurable bool
}

// of returns one resource's amount.
func (d DiskUsage) of(name v1.ResourceName) *uint64 {
	if name == inodes {
		return d.Inodes
	}
	return d.Bytes
}

// of returns the pod's resource usage. Unknown usage counts as nothing.
func (u *Usage) of(pod *v1.Pod, name v1.ResourceName, on part) resource.Quantity {
	switch name {
	case v1.ResourceMemory:
		return quantity(name, known(u.MemoryBytes))
	case processes:
		return quantity(name, known(u.Processes))
	}
	var total uint64
	for i := range u.Containers {
		if on&rootFS != 0 {
			total = plus(total, u.Containers[i].RootFS.of(name))
		}
		if on&logs != 0 {
			total = plus(total, u.Containers[i].Logs.of(name))
		}
	}
	if on&volumes != 0 {
		total = plus(plus(total, u.local(pod, name)), u.Files.of(name))
	}
	return quantity(name, total)
}

// local returns how much is in the volumes that are on the node's disk.
func (u *Usage) local(pod *v1.Pod, name v1.ResourceName) *uint64 {
	var total uint64
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if OnDisk(v) || v.HostPath != nil {
			total = plus(total, u.volume(v.Name).of(name))
		}
	}
	return &total
}

func (u *Usage) volume(name string) DiskUsage {
	for _, v := range u.Volumes {
		if v.Name == name {
			return v.DiskUsage
		}
	}
	return DiskUsage{}
}

// OnDisk reports whether a volume's files are the pod's own, on the node's disk.
func OnDisk(v *v1.Volume) bool {
	return v.GitRepo != nil || v.ConfigMap != nil || v.EmptyDir != nil && v.EmptyDir.Medium == v1.StorageMediumDefault
}

func known(n *uint64) uint64 {
	if n == nil {
		return 0
	}
	return *n
}

// plus adds, and saturates where it would overflow.
func plus(total uint64, n *uint64) uint64 {
	if sum := total + known(n); sum >= total {
		return sum
	}
	return math.MaxUint64
}

// quantity formats an amount for people.
func quantity(name v1.ResourceName, n uint64) resource.Quantity {
	format := resource.DecimalSI
	if name == v1.ResourceMemory || name == v1.ResourceEphemeralStorage {
		format = resource.BinarySI
	}
	return *resource.NewQuantity(int64(min(n, math.MaxInt64)), format)
}

// requested returns the pod's request. The overhead is added if there is a request.
func requested(pod *v1.Pod, name v1.ResourceName) resource.Quantity {
	asked := podresources.Total(&pod.Spec, podresources.Requests, name)
	if asked == nil || asked.IsZero() {
		return resource.Quantity{}
	}
	total := asked.DeepCopy()
	total.Add(pod.Spec.Overhead[name])
	return total
}
