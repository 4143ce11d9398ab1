// Package eviction configures the eviction of pods from a node that runs low on memory, disk or
// processes, and describes each eviction.
//
// A [Policy] has the thresholds, in the terms of a kubelet's configuration; the zero Policy is a
// kubelet's default. An agent evicts one pod at a time: first pods that use more than they request,
// then lower priority, then the usage above the request. Before that it reclaims unused resources,
// such as dead containers and unused images. It reports each [Eviction] to agent.Config.Evicted.
package eviction
