// Package topology chooses the NUMA nodes for the CPUs, the memory and the devices of a container, so that they are
// close to each other, as the topology manager of a kubelet does (KEP-693). A program that aligns such resources
// imports it.
//
// A [Provider] returns [Hints]: sets of NUMA nodes that can provide a resource. A [Mask] is such a set. [Policy.Merge] chooses the best set
// that all resources of a container share, and decides whether the pod is admitted. [Policy.Admit] does this for each container, or
// for the pod as a whole, and passes the result to the providers.
//
// All but the providers and ReadDistances is pure. A decision for eight NUMA nodes and four resources takes less than a millisecond; a kubelet tries all
// combinations of hints. The decisions are those of kubelet v1.36.2 on thousands of recorded machines.
package topology

// Where each rule lives:
//
//	mask.go   Mask: a set of NUMA nodes
//	hint.go   Hint, Hints and Provider: what a resource's manager offers
//	sysfs.go  ReadDistances
//	config.go Config, Machine, and New with their validation
//	merge.go  Merge: the best affinity
//	admit.go  Admit: scopes, allocation, and refusals
