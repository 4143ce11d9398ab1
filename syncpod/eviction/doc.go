// Package eviction decides who has to go when a node runs short of memory, disk or
// processes, as a kubelet does.
//
// A [Policy] says at which thresholds, in the words of a kubelet's configuration. [Decide]
// says what follows from readings of the node and of its pods: under which pressure it is,
// what is to be removed that nobody needs, and then which pod goes, one at a time; or which
// pods go because they exceed a limit of their own. [Rank] is the order in which they would:
// those first that use more than they ask for, then the lesser priority, then what is used
// beyond the request. [Admit] says which new pods may run meanwhile. All of this is pure: a
// Decision is a value that can be printed, and says of each pod why it goes or stays.
//
//	rules, err := eviction.Policy{}.Rules()
//	d := eviction.Decide(rules, eviction.State{Readings: readings, Pods: pods, Memory: before}, now)
//	fmt.Print(d)             // met: memory.available<100Mi: 50Mi available
//	fmt.Print(d.Explain(uid)) // stays: 1 of 2 go before it, and one goes at a time
//
// Nothing follows from a reading that is missing, older than [MaxAge] or cannot be, nor from a
// threshold that is more than the node has: Decision.Problems says so.
//
// # Where each rule lives
//
//	policy.go     Policy, and the Rules that it comes to; threshold.go amounts in it
//	signal.go     Signal: what is watched; Layout: which file systems are one
//	reading.go    Reading: what was read of a signal, and whether it counts
//	decide.go     Decide: thresholds that are met, and what follows
//	condition.go  the conditions of the node
//	usage.go      Candidate and Usage: what pods use, and ask for
//	rank.go       Rank: the order
//	limits.go     limits that pods have of their own
//	message.go    Eviction: what is said of a pod that goes
//	critical.go   pods that stay, and Admit
//	explain.go    why
package eviction
