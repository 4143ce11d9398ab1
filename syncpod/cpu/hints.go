package cpu

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/topology"
)

// MaxHintNodes is the largest number of NUMA nodes for which Hints compares all sets of nodes. Larger machines have no hints.
const MaxHintNodes = 16

// Hints returns the sets of NUMA nodes that can provide the exclusive CPUs of a container, or of a whole pod if the container is nil.
// It returns nil if no exclusive CPUs are requested. If the State has the CPUs already, the hints allow only these.
func (a *Allocator) Hints(s State, pod *v1.Pod, c *v1.Container) topology.Hints {
	if pod == nil {
		return nil
	}
	n := a.Exclusive(pod, c)
	if c == nil {
		n = a.exclusiveOfPod(pod)
	}
	if n == 0 || len(a.layout.nodes) > MaxHintNodes {
		return nil
	}
	var own Set
	for other := range containers(pod) {
		if c == nil || other.Name == c.Name {
			own = own.Union(s.Of(pod.UID, other.Name))
		}
	}
	var hints []topology.Hint
	switch {
	case own.IsEmpty():
		hints = a.hints(a.free(s), s.reusable(pod), n)
	case own.Len() == n:
		hints = a.hints(own, Set{}, n)
	}
	return topology.Hints{v1.ResourceCPU: hints}
}

// exclusiveOfPod returns how many exclusive CPUs the containers of a pod need at one time.
func (a *Allocator) exclusiveOfPod(pod *v1.Pod) int {
	sidecars, most := 0, 0
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		n := min(a.Exclusive(pod, c), MaxCPUs+1)
		if runtime.IsSidecar(c) {
			sidecars += n
			most = max(most, sidecars)
		} else {
			most = max(most, sidecars+n)
		}
	}
	total := sidecars
	for i := range pod.Spec.Containers {
		total += min(a.Exclusive(pod, &pod.Spec.Containers[i]), MaxCPUs+1)
	}
	return max(most, total)
}

// hints returns the sets of nodes that have n free CPUs and all reusable ones. The smallest sets that would be large enough on an idle
// machine are preferred.
func (a *Allocator) hints(free, reusable Set, n int) []topology.Hint {
	nodes := a.layout.nodes
	var machine topology.Mask
	var size, available, reused [topology.MaxNodes]int
	all := free.Union(reusable)
	for _, g := range nodes {
		machine |= 1 << g.id
		size[g.id], available[g.id], reused[g.id] = g.cpus.Len(), all.common(g.cpus), reusable.common(g.cpus)
	}
	smallest := len(nodes)
	var hints []topology.Hint
	for set := range machine.Subsets() {
		cpus, can, has := 0, 0, 0
		for node := range set.Nodes() {
			cpus, can, has = cpus+size[node], can+available[node], has+reused[node]
		}
		if cpus >= n {
			smallest = min(smallest, set.Count())
		}
		if can >= n && has == reusable.Len() {
			hints = append(hints, topology.Hint{Nodes: set})
		}
	}
	for i, h := range hints {
		hints[i].Preferred = h.Nodes.Count() == smallest || a.options.AlignBySocket && a.socketAligned(h.Nodes, smallest)
	}
	return hints
}

// socketAligned reports whether nodes lie in as few sockets as the smallest set of nodes would need.
func (a *Allocator) socketAligned(nodes topology.Mask, smallest int) bool {
	perSocket := len(a.layout.nodes) / len(a.layout.sockets)
	cpus, sockets := a.layout.cpusOf(nodes), 0
	for _, socket := range a.layout.sockets {
		if socket.cpus.common(cpus) > 0 {
			sockets++
		}
	}
	return sockets == (smallest+perSocket-1)/perSocket
}
