package topology

import (
	v1 "k8s.io/api/core/v1"
)

// A Hint is a set of NUMA nodes that can provide a resource. The zero Hint has no affinity: any node can, but it is not preferred.
type Hint struct {
	// Nodes are the NUMA nodes. Empty means any node.
	Nodes Mask
	// Preferred means that no fewer nodes could provide the resource.
	Preferred bool
}

// String returns the nodes, and whether they are preferred: "0-1 preferred".
func (h Hint) String() string {
	nodes := h.Nodes.String()
	if h.Nodes == 0 {
		nodes = "any"
	}
	if h.Preferred {
		return nodes + " preferred"
	}
	return nodes
}

// Hints are the possible affinities for each resource that a container requests. A resource without an entry may come from any node.
// An entry without a hint, also a nil one, means that no set of nodes can provide the resource.
type Hints map[v1.ResourceName][]Hint

// A Provider allocates resources that are close to NUMA nodes, such as CPUs, memory or devices. It decides about one pod at a time:
// Hints for a later container depend on what Allocate gave to the containers before it.
type Provider interface {
	// Hints returns the hints for a container, or those for the whole pod if container is nil. It changes nothing. If the container
	// has its resources already, the hints allow these only.
	Hints(pod *v1.Pod, container *v1.Container) Hints
	// Allocate gives a container its resources, from the affinity's nodes as far as they have them. An affinity without nodes
	// allows all nodes. An error rejects the pod; it names the resource.
	Allocate(pod *v1.Pod, container *v1.Container, affinity Hint) error
}
