// Package manager periodically observes a node and evicts pods when it runs low on memory, disk or processes, or when
// pods exceed their storage limits. An agent imports it, unless its pods are all critical.
//
//	m, err := New(Config{Agent: agent, Stats: reader})
//	m.Synchronize(ctx) // every 10 s
//
// An agent.Agent does all of this, unless its Config has NoEviction. Package eviction decides; a
// [Manager] reads the usage, reclaims unused resources first, stops pods, and persists the
// evictions that have not ended, so that the next agent continues them.
//
// # Cost
//
// An observation of a node without pressure reads a few files in /proc and the disk usage, and asks the
// runtime for the image location. The pod usage is read when one of them may have to be evicted. Once a
// minute, the volumes and logs of pods with storage limits are measured. A long measurement does not delay
// the next observation, nor an eviction for memory or processes.
package manager

// Where each rule lives:
//
//	manager.go   Config and Manager: one observation
//	evict.go     evictions in progress, and those of an earlier agent
//	readings.go  converts readings to those of package eviction
//	pass.go      concurrent measurements for storage limits
//	measure.go   measures volumes and logs; size_linux.go and size_other.go sizes of files
