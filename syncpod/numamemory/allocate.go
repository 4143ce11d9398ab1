package numamemory

import (
	"errors"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/podspec/qos"
	"github.com/podsync/podsync/syncpod/topology"
)

// The errors of [State.Allocate], with a kubelet's texts. topology.Policy.Admit refuses a pod with them.
var (
	ErrNoNodes          = errors.New("[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
	ErrNotPreferred     = errors.New("[memorymanager] failed to find the default preferred hint")
	ErrNotExtended      = errors.New("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
	ErrExtendsPreferred = errors.New("[memorymanager] failed to find the extended preferred hint")
	ErrGroup            = errors.New("[memorymanager] preferred hint violates NUMA node allocation")
)

// request is the memory and the huge pages that a container or pod requests, in bytes.
type request map[v1.ResourceName]uint64

// ofContainer returns what a container requests.
func ofContainer(c *v1.Container) request {
	r := request{}
	for name, q := range c.Resources.Requests {
		if isMemory(name) && q.Sign() > 0 {
			r[name] = uint64(q.Value())
		}
	}
	return r
}

// ofPod returns the sum that a pod's containers request at the same time: an init container runs beside the sidecars before it, the other
// containers beside all sidecars.
func ofPod(pod *v1.Pod) request {
	most, running := request{}, request{}
	add := func(c *v1.Container, stays bool) {
		for name, size := range ofContainer(c) {
			most[name] = max(most[name], running[name]+size)
			if stays {
				running[name] += size
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i], runtime.IsSidecar(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], true)
	}
	maps.DeleteFunc(most, func(name v1.ResourceName, _ uint64) bool {
		return !slices.ContainsFunc(pod.Spec.Containers, func(c v1.Container) bool { return !c.Resources.Requests.Name(name, "").IsZero() })
	})
	return most
}

// pinned reports whether the pod's containers get memory of their own: it is Guaranteed, and its containers request it, not the pod.
func (s State) pinned(pod *v1.Pod) bool {
	if pod == nil || len(s.Nodes) == 0 || len(s.Nodes) > MaxNodes || qos.Class(pod) != v1.PodQOSGuaranteed {
		return false
	}
	r := pod.Spec.Resources
	return r == nil || len(r.Requests) == 0 && len(r.Limits) == 0
}

// Hints returns the sets of NUMA nodes that have enough free memory and huge pages for a container, or for the whole pod if container is nil.
// It returns nil for a pod that gets no memory of its own.
func (s State) Hints(pod *v1.Pod, container *v1.Container) topology.Hints {
	if !s.pinned(pod) {
		return nil
	}
	if container != nil {
		r := ofContainer(container)
		if held := s.Pods[pod.UID][container.Name]; held != nil {
			return heldHints(held, r)
		}
		return s.hints(pod, container.Name, r)
	}
	r := ofPod(pod)
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if held := s.Pods[pod.UID][list[i].Name]; held != nil {
				return heldHints(held, r)
			}
		}
	}
	return s.hints(pod, "", r)
}

// heldHints returns the affinity of blocks that a container already has: none if they are not exactly what is requested.
func heldHints(held []Block, r request) topology.Hints {
	hints := topology.Hints{}
	for _, b := range held {
		if r[b.Resource] != b.Size {
			return nil
		}
		hints[b.Resource] = []topology.Hint{{Nodes: b.Nodes, Preferred: true}}
	}
	if len(hints) != len(r) {
		return nil
	}
	return hints
}

// hints returns the same sets for each requested resource: a container has all its memory from the same nodes. If there is no set, it returns
// nil, and Allocate fails with a reason that says more than the topology manager's.
func (s State) hints(pod *v1.Pod, container string, r request) topology.Hints {
	sets := s.sets(pod, container, r)
	if len(sets) == 0 {
		return nil
	}
	hints := topology.Hints{}
	for name := range r {
		hints[name] = sets
	}
	return hints
}

// sets returns the sets of NUMA nodes that can serve a request, narrower ones first. Preferred are those with as few nodes as an empty
// machine would need.
func (s State) sets(pod *v1.Pod, container string, r request) []topology.Hint {
	type need struct {
		name    v1.ResourceName
		size    uint64
		amounts []Amount // by index in Nodes
	}
	var needs []need
	for name, size := range r {
		n := need{name, size, make([]Amount, len(s.Nodes))}
		for i := range s.Nodes {
			n.amounts[i] = s.Nodes[i].Amounts[name]
		}
		needs = append(needs, n)
	}
	var sets []topology.Hint
	fewest := topology.MaxNodes + 1
	for nodes := range s.machine().Subsets() {
		fits, free := true, true
		for _, need := range needs {
			var sum Amount
			for i := range s.Nodes {
				if nodes.Has(s.Nodes[i].ID) {
					sum.Allocatable += need.amounts[i].Allocatable
					sum.Free += need.amounts[i].Free
				}
			}
			fits = fits && need.size <= sum.Allocatable
			free = free && (need.size <= sum.Free || need.size <= sum.Free+s.reusable(pod, container, nodes, need.name))
		}
		if fits {
			fewest = min(fewest, nodes.Count())
		}
		if fits && free && s.groupFree(nodes) {
			sets = append(sets, topology.Hint{Nodes: nodes, Preferred: nodes.Count() == fewest})
		}
	}
	return sets
}

// groupFree reports whether a container may get memory from a set of nodes: none serves another group.
func (s State) groupFree(nodes topology.Mask) bool {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; nodes.Has(n.ID) && n.Blocks > 0 && n.Group != nodes {
			return false
		}
	}
	return true
}

// reusable returns the memory that the init containers before a container have on exactly these nodes, because they end before it
// starts. A block is smaller by what has been reused of it. The pod as a whole, which has no name, reuses nothing.
func (s State) reusable(pod *v1.Pod, container string, nodes topology.Mask, name v1.ResourceName) (size uint64) {
	containers := s.Pods[pod.UID]
	if len(containers) == 0 || container == "" {
		return 0
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == container {
			break
		}
		if runtime.IsSidecar(c) {
			continue
		}
		for _, b := range containers[c.Name] {
			if b.Nodes == nodes && b.Resource == name {
				size += b.Size
			}
		}
	}
	return size
}

// Allocate returns the State in which a container has its memory from the affinity's nodes, and from further nodes if these have too little. A
// container that has its memory keeps it. Without nodes in the affinity it is the best set of nodes.
func (s State) Allocate(pod *v1.Pod, container *v1.Container, affinity topology.Hint) (State, error) {
	if !s.pinned(pod) || container == nil || s.Pods[pod.UID][container.Name] != nil {
		return s, nil
	}
	r := ofContainer(container)
	if len(r) == 0 {
		return s, nil
	}
	nodes, err := s.choose(pod, container.Name, r, affinity)
	if err != nil {
		return s, err
	}
	next := s.clone(pod.UID)
	blocks := []Block{}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		b := Block{Nodes: nodes, Resource: name, Size: r[name]}
		reused := min(b.Size, s.reusable(pod, container.Name, nodes, name))
		next.take(b, b.Size-reused)
		next.reuse(pod, container.Name, b)
		blocks = append(blocks, b)
	}
	next.Pods[pod.UID][container.Name] = blocks
	return next, nil
}

// choose returns a request's nodes. A node in a group gives no container memory alone: the container gets it from the group.
func (s State) choose(pod *v1.Pod, container string, r request, affinity topology.Hint) (topology.Mask, error) {
	if affinity.Nodes != 0 && s.enough(affinity.Nodes, r) {
		if s.groupFree(affinity.Nodes) {
			return affinity.Nodes, nil
		}
		if affinity.Nodes.Count() > 1 {
			return 0, ErrGroup
		}
	}
	sets := slices.DeleteFunc(s.sets(pod, container, r), func(h topology.Hint) bool { return affinity.Nodes&^h.Nodes != 0 })
	noSet, notPreferred := ErrNoNodes, ErrNotPreferred
	if affinity.Nodes != 0 {
		noSet, notPreferred = ErrNotExtended, ErrExtendsPreferred
	}
	if len(sets) == 0 {
		return 0, noSet
	}
	best := sets[max(0, slices.IndexFunc(sets, func(h topology.Hint) bool { return h.Preferred }))]
	if affinity.Preferred && !best.Preferred {
		return 0, notPreferred
	}
	return best.Nodes, nil
}

// enough reports whether the nodes have as much free memory as requested.
func (s State) enough(nodes topology.Mask, r request) bool {
	for name, size := range r {
		var free uint64
		for i := range s.Nodes {
			if nodes.Has(s.Nodes[i].ID) {
				free += s.Nodes[i].Amounts[name].Free
			}
		}
		if free < size {
			return false
		}
	}
	return true
}

// reuse shrinks the earlier init containers' blocks by the amount that a container reuses. The State must be a clone.
func (s State) reuse(pod *v1.Pod, container string, by Block) {
	left := by.Size
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == container {
			return
		}
		if runtime.IsSidecar(c) {
			continue
		}
		blocks := slices.Clone(s.Pods[pod.UID][c.Name])
		for j := range blocks {
			if b := &blocks[j]; b.Nodes == by.Nodes && b.Resource == by.Resource {
				part := min(b.Size, left)
				b.Size -= part
				left -= part
			}
		}
		if blocks != nil {
			s.Pods[pod.UID][c.Name] = blocks
		}
	}
}

// Started returns the State after a container's start: the init containers before it have ended, and release the memory that no
// other container reuses.
func (s State) Started(pod *v1.Pod, container string) State {
	if pod == nil || s.Pods[pod.UID] == nil {
		return s
	}
	next, cloned := s, false
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.Name == container {
			break
		}
		if runtime.IsSidecar(c) || s.Pods[pod.UID][c.Name] == nil {
			continue
		}
		if !cloned {
			next, cloned = s.clone(pod.UID), true
		}
		next.drop(pod.UID, c.Name)
	}
	return next
}

// An Admission is a topology.Provider that allocates in a State. After an admission the State has the pod's memory; after a
// refusal the caller discards it. It is not for concurrent use.
type Admission struct{ State State }

var _ topology.Provider = (*Admission)(nil)

// Hints calls [State.Hints].
func (a *Admission) Hints(pod *v1.Pod, container *v1.Container) topology.Hints {
	return a.State.Hints(pod, container)
}

// Allocate calls [State.Allocate].
func (a *Admission) Allocate(pod *v1.Pod, container *v1.Container, affinity topology.Hint) error {
	next, err := a.State.Allocate(pod, container, affinity)
	a.State = next
	return err
}
