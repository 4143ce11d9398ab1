package cgroup

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/internal/quantities"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// Input determines a pod's cgroup settings.
type Input struct {
	// Pod is the pod, with the API's defaults. Required.
	Pod *v1.Pod
	// NoCPUQuota turns the enforcement of CPU limits off.
	NoCPUQuota bool
	// CPUPeriod is the accounting period of CPU limits, 0 means 100 ms.
	CPUPeriod time.Duration
	// MemoryReservation protects the memory that a pod requests from being reclaimed (KEP-2570):
	// always for a Guaranteed pod, and for others while other memory is available. It has an effect
	// with version 2 only.
	MemoryReservation bool
	// PIDs limits the processes and threads of a pod, 0 means no limit.
	PIDs int64
}

// ResourceConfigForPod returns a pod's cgroup settings: the sum over its containers, and the pod's
// overhead. The pod as a whole is limited only if each container is. An error names the pod's field.
func ResourceConfigForPod(in Input) (Resources, error) {
	if in.Pod == nil {
		return Resources{}, errors.New("cgroup: Input.Pod is required")
	}
	pages, err := hugePages(&in.Pod.Spec)
	if err != nil {
		return Resources{}, fmt.Errorf("cgroup of pod %s/%s: %w", in.Pod.Namespace, in.Pod.Name, err)
	}
	class := qos.Class(in.Pod)
	r := Resources{CPUShares: minShares, HugePages: pages}
	if class != v1.PodQOSBestEffort {
		in.limit(&r)
	}
	if in.PIDs > 0 {
		r.PIDs = &in.PIDs
	}
	if in.MemoryReservation {
		r.Unified = reservation(class, requested(&in.Pod.Spec, v1.ResourceMemory))
	}
	return r, nil
}

// limit sets CPU and memory.
func (in *Input) limit(r *Resources) {
	spec := &in.Pod.Spec
	cpu := podresources.CPUOf(requested(spec, v1.ResourceCPU), most(spec, v1.ResourceCPU), podresources.CPUBandwidth{Period: in.CPUPeriod})
	r.CPUShares = cpu.Shares
	if limited(spec, v1.ResourceCPU) {
		r.CPUQuota, r.CPUPeriod = &cpu.Quota, &cpu.Period
		if in.NoCPUQuota {
			r.CPUQuota = new(int64(-1))
		}
	}
	if limited(spec, v1.ResourceMemory) {
		r.Memory = new(most(spec, v1.ResourceMemory).Value())
	}
}

// requested adds up the containers' requests and the sandbox's overhead, never nil.
func requested(spec *v1.PodSpec, name v1.ResourceName) *resource.Quantity {
	return sum(podresources.Total(spec, podresources.Requests, name), spec.Overhead[name])
}

// most returns the sum of the containers' limits and the sandbox's overhead, never nil. No limit,
// or a limit of zero, is returned unchanged.
func most(spec *v1.PodSpec, name v1.ResourceName) *resource.Quantity {
	limit := podresources.Total(spec, podresources.Limits, name)
	if limit == nil || limit.IsZero() {
		return new(resource.Quantity)
	}
	return sum(limit, spec.Overhead[name])
}

func sum(q *resource.Quantity, more resource.Quantity) *resource.Quantity {
	total := more.DeepCopy()
	if q != nil {
		total.Add(*q)
	}
	return &total
}

// limited reports whether the pod as a whole has a limit: its own, or because each container has one. While an init
// container runs, the sidecars before it run, too. For an init container, a limit for the container or of these
// sidecars suffices.
func limited(spec *v1.PodSpec, name v1.ResourceName) bool {
	if spec.Resources != nil && positive(spec.Resources.Limits, name) {
		return true
	}
	for i := range spec.Containers {
		if !positive(spec.Containers[i].Resources.Limits, name) {
			return false
		}
	}
	sidecar := false
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		own := positive(c.Resources.Limits, name)
		if !own && !sidecar {
			return false
		}
		sidecar = sidecar || own && runtime.IsSidecar(c)
	}
	return true
}

func positive(list v1.ResourceList, name v1.ResourceName) bool {
	q, ok := list[name]
	return ok && q.Sign() > 0
}

// reservation returns the memory of a pod that the kernel must not reclaim.
func reservation(class v1.PodQOSClass, request *resource.Quantity) map[string]string {
	if request.Sign() <= 0 {
		return nil
	}
	return map[string]string{reservedIn(class): strconv.FormatInt(request.Value(), 10)}
}

// reservedIn returns the file that holds the reservations of pods of a class.
func reservedIn(class v1.PodQOSClass) string {
	if class == v1.PodQOSGuaranteed {
		return memoryMin
	}
	return memoryLow
}

// hugePages returns the limits for all sizes that the pod names.
func hugePages(spec *v1.PodSpec) (map[int64]int64, error) {
	limits := map[int64]int64{}
	for name := range pageNames(spec) {
		text := strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix)
		if err := quantities.Check(text); err != nil {
			return nil, fmt.Errorf("resource %.200q: the size of huge pages: %w", name, err)
		}
		size, err := resource.ParseQuantity(text)
		if err != nil || size.Sign() <= 0 {
			return nil, fmt.Errorf("resource %q names no size of huge pages", name)
		}
		limits[size.Value()] = podresources.Total(spec, podresources.Limits, name).Value()
	}
	return limits, nil
}

// pageNames returns the sizes of huge pages that the pod or its containers limit.
func pageNames(spec *v1.PodSpec) map[v1.ResourceName]bool {
	names := map[v1.ResourceName]bool{}
	note := func(list v1.ResourceList) {
		for name := range list {
			if strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix) {
				names[name] = true
			}
		}
	}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			note(list[i].Resources.Limits)
		}
	}
	if spec.Resources != nil {
		note(spec.Resources.Limits)
	}
	return names
}
