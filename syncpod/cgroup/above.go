package cgroup

import (
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// Above determines the settings for the cgroups above the pods'.
type Above struct {
	// Pods are the pods that have a cgroup. Finished pods have none.
	Pods []*v1.Pod
	// Allocatable are the node's resources for pods. A resource that is not in it is not limited.
	Allocatable v1.ResourceList
	// MemoryReservation must equal the pods' setting; see [Input].
	MemoryReservation bool
}

// ResourceConfigForNode returns the settings for the cgroup with all pods: it is limited to Allocatable.
// A negative amount is an error.
func ResourceConfigForNode(a Above) (Resources, error) {
	for name, q := range a.Allocatable {
		if q.Sign() < 0 {
			return Resources{}, fmt.Errorf("cgroup: allocatable %s is %s, want 0 or more", name, q.String())
		}
	}
	r := Resources{}
	if cpu, ok := a.Allocatable[v1.ResourceCPU]; ok {
		r.CPUShares = shares(cpu)
	}
	if memory, ok := a.Allocatable[v1.ResourceMemory]; ok {
		r.Memory = new(memory.Value())
	}
	if pids, ok := a.Allocatable[pidResource]; ok {
		r.PIDs = new(pids.Value())
	}
	r.Unified = a.reservations("")
	return r, nil
}

// pidResource is the resource name for the process count.
const pidResource v1.ResourceName = "pid"

// ResourceConfigForQOSClass returns the settings for the cgroup with all Burstable or BestEffort pods: the weight
// is their requests' sum, or the minimum for BestEffort. Limits are set on each pod.
func ResourceConfigForQOSClass(a Above, class v1.PodQOSClass) Resources {
	r := Resources{CPUShares: minShares, Unified: a.reservations(class)}
	if class == v1.PodQOSBestEffort {
		return r
	}
	var cpu resource.Quantity
	for _, pod := range a.Pods {
		if pod != nil && qos.Class(pod) == class {
			cpu.Add(*requested(&pod.Spec, v1.ResourceCPU))
		}
	}
	r.CPUShares = shares(cpu)
	return r
}

func shares(cpu resource.Quantity) int64 {
	return podresources.MilliCPUToShares(cpu.MilliValue())
}

// reservations adds up the reservations for the pods in a class, or for all pods: the kernel
// honours a reservation only as far as the cgroups above have it too.
func (a Above) reservations(class v1.PodQOSClass) map[string]string {
	if !a.MemoryReservation {
		return nil
	}
	sums := map[string]int64{}
	for _, pod := range a.Pods {
		if of := qos.Class(pod); pod != nil && (class == "" || of == class) {
			sums[reservedIn(of)] += max(requested(&pod.Spec, v1.ResourceMemory).Value(), 0)
		}
	}
	unified := map[string]string{memoryMin: "0", memoryLow: "0"}
	for file, bytes := range sums {
		unified[file] = strconv.FormatInt(bytes, 10)
	}
	return unified
}
