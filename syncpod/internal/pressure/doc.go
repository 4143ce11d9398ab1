// Package pressure looks at a node at intervals, and evicts pods when it runs short of
// memory, disk or processes, or when they exceed their limits of storage.
//
//	m, err := pressure.New(pressure.Config{Agent: agent, Stats: reader})
//	m.Look(ctx) // every 10 s
//
// A loop.Loop does all of this if its Config has an EvictionPolicy. What is decided is decided by
// package eviction; a [Manager] reads what it needs for that, has what nobody needs removed
// first, has pods stopped, and remembers in files which evictions have not ended, so that the
// next agent goes on with them.
//
// # What it costs
//
// A look at a node that is short of nothing reads a few files of /proc and how full disks
// are, and asks the runtime where images are. What pods use is read when one of them may have
// to go; and once a minute of those pods that have limits of storage, whose volumes and logs are
// counted then. A count that takes long does not delay the next look: an eviction for memory or
// processes waits for none.
//
// # Where each rule lives
//
//	manager.go   Config and Manager: one look
//	evict.go     evictions in flight, and those of an earlier agent
//	readings.go  what was read, in the words of package eviction
//	pass.go      measurements of limits beside the looks
//	measure.go   what is in volumes and logs; size_linux.go and size_other.go room that files take
package pressure
