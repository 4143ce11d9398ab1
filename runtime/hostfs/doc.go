// Package hostfs reads, replaces and names files on the node that are hostile or must survive a crash.
// Packages import it wherever a container may have written a path or a file.
//
// # Hostile files
//
// [Read], [Open] and [Names] work in directories to which containers may write. Such processes may at any moment replace
// a file with a FIFO, a device, a socket or a link, and create files of any size. These functions open only regular
// files, leave no root, and read no more than the caller's limit.
//
// # Durable files
//
// [Replace] replaces a file atomically: if the agent is killed, either the old or the new contents exist.
//
// # Names that become paths
//
// [Element] and [Relative] validate names and paths from a pod before they enter a path on the node. An API server
// validates them too, but no API server may have seen a pod from a file or another program.
//
// # Concurrency
//
// All functions may be called concurrently. Calls to Replace for the same path must not overlap.
package hostfs

// Where each rule lives:
//
//	regular.go   Read, Open, Names; open_linux.go and open_other.go open without side effects
//	durable.go   Replace; sync.go and sync_windows.go sync a directory
//	safepath.go  Element, Relative
