// Package eviction decides which pods to evict when a node runs low on memory, disk or processes, as a
// kubelet does. A program imports it to decide; package eviction/manager measures and acts.
//
// A [Policy] has the thresholds, in a kubelet configuration's terms; the zero Policy is a kubelet's default.
// [ParsePolicy] parses it. [Decide] uses readings from the node and its pods. It decides under which pressure the
// node is, which unused resources to reclaim, and then which pod to evict, one at a time. It also decides which pods
// to evict because they exceed their own limit. [Rank] is the eviction order: first pods that use more than they
// request, then lower priority, then the usage above the request. [Admit] decides which new pods may run under
// pressure. All this is pure: a Decision is a value that can be printed, and explains for each pod why it is evicted
// or not.
//
//	rules, err := ParsePolicy(Policy{})
//	d := Decide(rules, State{Readings: readings, Pods: pods, Memory: before}, now)
//	fmt.Print(d)             // met: memory.available<100Mi: 50Mi available
//	fmt.Print(d.Explain(uid)) // stays: 1 in 2 goes before it, and one goes at a time
//
// A reading that is missing, older than [MaxAge] or impossible has no consequence, and neither has a threshold above
// the node's capacity: Decision.Problems reports them.
//
// # What the caller provides
//
// Readings and usage, for example from runtime/stats, and the running pods with the API's defaults; their priority is that of
// the spec, and pods without usage are evicted only if [Rank] has no other. Pass [Decision.Memory] to the next Decide, which knows
// from it since when a threshold is met. Stop the pods in Decision.Evict, and list them in State.Ending until they have stopped.
// Nothing is modified, and all functions may be called concurrently. A Candidate without a Pod is ignored.
//
// In a kubelet, [ParsePolicy] is ParseThresholdConfig, Decide is synchronize of the eviction manager, Rank its rank functions, [Admit]
// its Admit, and [Preempt] is getPodsToPreempt of its critical-pod admission.
//
// An agent reports each [Eviction] to agent.Config.Evicted. Before it evicts a pod it reclaims unused resources, such as
// dead containers and unused images.
package eviction

// Where each rule lives:
//
//	rules.go      Rules: a Policy that was read; threshold.go amounts
//	layout.go     Layout: which file systems are the same, and what each signal measures
//	reading.go    Reading: the value of a signal, and whether it is valid
//	decide.go     Decide: which thresholds are met, and the consequences
//	condition.go  the conditions of the node
//	usage.go      Candidate and Usage: usage and requests of pods
//	rank.go       Rank: the order
//	limits.go     limits of single pods
//	message.go    Eviction, and its message
//	critical.go   critical pods, and Admit
//	preempt.go    Preempt: which pods stop so that a critical pod fits
//	explain.go    explanations
//	policy.go     Policy, and the signals
