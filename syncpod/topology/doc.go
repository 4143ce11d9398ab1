// Package topology chooses the NUMA nodes for the CPUs, the memory and the devices of a container, so that they are close to each
// other, as the topology manager of a kubelet does (KEP-693).
//
// A [Provider] returns [Hints]: sets of NUMA nodes that can provide a resource. A [Mask] is such a set.
package topology

// Where each rule lives:
//
//	mask.go   Mask: a set of NUMA nodes
//	hint.go   Hint, Hints and Provider: what a resource's manager offers
