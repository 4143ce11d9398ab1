package eviction

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// immediately is the grace period for a pod that is evicted for a hard
// threshold.
const immediately = 1

// An eviction's event annotations. The names are the kubelet's, because tools read them.
const (
	starvedResource          = "starved_resource"
	offendingPod             = "offending_pod"
	offendingPodUsage        = "offending_pod_usage"
	offendingContainers      = "offending_containers"
	offendingContainersUsage = "offending_containers_usage"
)

// pressed returns a pod's eviction for pressure on the node.
func pressed(p Candidate, why *Met, maxGrace time.Duration) Eviction {
	e := Eviction{Pod: p.Pod, Signal: why.Signal, GraceSeconds: immediately, Disruption: true}
	e.Message, e.Annotations = describe(p, why)
	if why.Grace > 0 {
		e.GraceSeconds = max(int64(maxGrace/time.Second), immediately)
		if own := p.Pod.Spec.TerminationGracePeriodSeconds; own != nil {
			e.GraceSeconds = max(min(e.GraceSeconds, *own), immediately)
		}
	}
	return e
}

// describe returns an eviction's message and its event's annotations: the pressure, and the containers that use more than
// they request.
func describe(p Candidate, why *Met) (message string, annotations map[string]string) {
	name := ResourceOf(why.Signal)
	annotations = map[string]string{starvedResource: string(name)}
	var text strings.Builder
	fmt.Fprintf(&text, "The node was low on resource: %s. Threshold quantity: %s, available: %s. ",
		name, why.Value.text(why.Reading.Capacity), amountOf(why.Signal, why.Reading.Available))
	if p.Usage == nil {
		return text.String(), annotations
	}
	if whole := p.Pod.Spec.Resources; whole != nil && name == v1.ResourceMemory && p.Usage.MemoryBytes != nil {
		if request, ok := whole.Requests[name]; ok {
			used := quantity(name, *p.Usage.MemoryBytes)
			fmt.Fprintf(&text, "Pod %s was using %s, request is %s, has larger consumption of %s. ", p.Pod.Name, used.String(), request.String(), name)
			annotations[offendingPod], annotations[offendingPodUsage] = p.Pod.Name, used.String()
		}
	}
	var names, amounts []string
	for i := range p.Usage.Containers {
		c := &p.Usage.Containers[i]
		request, known := requestOf(p.Pod, c.Name, name)
		used := c.of(name)
		if !known || used == nil {
			continue
		}
		if u := quantity(name, *used); u.Cmp(request) > 0 {
			fmt.Fprintf(&text, "Container %s was using %s, request is %s, has larger consumption of %s. ", c.Name, u.String(), request.String(), name)
			names, amounts = append(names, c.Name), append(amounts, u.String())
		}
	}
	if volume, used := largestVolume(p, name); used > 0 {
		u := quantity(name, used)
		fmt.Fprintf(&text, "Volume %s was using %s. ", volume, u.String())
	}
	annotations[offendingContainers], annotations[offendingContainersUsage] = strings.Join(names, ","), strings.Join(amounts, ",")
	return text.String(), annotations
}

// largestVolume returns the volume on the node's disk that uses most, and how much. What a pod has in volumes counts for
// its eviction, and is in no container's usage.
func largestVolume(p Candidate, name v1.ResourceName) (volume string, used uint64) {
	if name != v1.ResourceEphemeralStorage && name != inodes {
		return "", 0
	}
	for _, v := range p.Usage.Volumes {
		if u := known(v.of(name)); u > used {
			volume, used = v.Name, u
		}
	}
	return volume, used
}

// of returns how much a container uses, nil if unknown.
func (c *ContainerUsage) of(name v1.ResourceName) *uint64 {
	switch {
	case name == v1.ResourceMemory:
		return c.MemoryBytes
	case name == v1.ResourceEphemeralStorage && c.RootFS.Bytes != nil && c.Logs.Bytes != nil:
		return new(plus(*c.RootFS.Bytes, c.Logs.Bytes))
	}
	return nil
}

// Reason is the status reason for a pod that was evicted, or that Admit
// rejects.
const Reason = "Evicted"

// An Eviction is a pod to evict, and its message.
type Eviction struct {
	Pod *v1.Pod
	// Signal is the cause: a node signal, or the pod's own limit that it exceeds.
	Signal Signal
	// GraceSeconds is the pod's grace period.
	GraceSeconds int64
	// Message is for people; the reason is Reason.
	Message string
	// Annotations are the event's: the resource that the node lacks, and the containers that use more than they request.
	// It is nil if the pod exceeds its own limit.
	Annotations map[string]string
	// Disruption is set if the node is under pressure: the pod then gets the condition DisruptionTarget. It is not set
	// if the pod exceeds its own limit.
	Disruption bool
}

// String describes the eviction.
func (e Eviction) String() string {
	pod := cmp.Or(e.Pod, &v1.Pod{})
	return fmt.Sprintf("evict %s/%s within %d s: %s: %s", pod.Namespace, pod.Name, e.GraceSeconds, e.Signal, strings.TrimSpace(e.Message))
}
