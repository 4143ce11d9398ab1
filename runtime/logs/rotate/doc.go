// Package rotate keeps running containers' logs from filling the disk, as a kubelet does: it rotates a log that has grown to
// [Policy.MaxSize], compresses rotated files, and removes the oldest ones. An agent imports it, because CRI runtimes do not
// rotate logs.
//
// [Decide] returns the steps for one log's files. It is a pure function on their names and sizes. A [Rotator] carries them out
// for all running containers, in a pass that its owner starts periodically. It finds the containers in a runtime.Cache, so that a
// pass in which no log is too large makes no call to the runtime. It reads a log's size only if the log could be full by now.
//
// # Taken alone
//
// A Rotator is a kubelet's containerLogManager. It needs one call to a runtime, a runtime.Cache that a pleg.Watcher or the caller
// fills, and the logs' directory; the zero [Policy] is a kubelet's. It starts nothing: the caller calls Rotate, every 10 s as a
// kubelet does.
//
// # Names
//
// A container's log is <attempt>.log in its directory. Rotation renames it to
// <attempt>.log.20060102-150405, with the time of the rotation; compression appends .gz. Each new
// name is greater than all before it, even if the clock was set back, so that sorting by name sorts
// by age. The newest rotated file is compressed at the next rotation. All this is as in a kubelet.
// Package [github.com/podsync/podsync/runtime/logs] reads and follows logs across rotations.
//
// # No line is lost
//
// The Rotator renames the log and then asks the runtime to reopen it. The runtime keeps writing to
// the renamed file until it does. If the runtime rejects the request, the file gets its name back,
// unless a new file exists nevertheless. If the response is lost, the file keeps its new name,
// because the runtime may still create a new file. If a log does not exist, the Rotator asks the runtime
// to reopen it, and again after growing pauses.
//
// Compressions come after all rotations in a pass and take a bounded time. They resume in the next pass, also if the container
// has ended. A compressed file has several gzip members.
//
// A file is compressed to a temporary file, which is synced to disk before it gets its final name; only then is the source
// removed. Wherever the agent is interrupted, each line is in at least one file. If both the source and its compressed file
// exist, the next agent removes the source; it also removes temporary files.
//
// # Files that are not touched
//
// The Rotator touches only files with the names above. If one is a link, a pipe or a directory, or if their directory is a link
// or belongs to a user other than the agent's or root, it leaves that log alone and returns an error.
package rotate

// The files:
//
//	decide.go    Policy and Decide
//	rotator.go   Rotator: finds logs, and backs off after failures
//	files.go     carries out the steps; compress.go compresses
//	owner_unix.go   checks the owner of a directory; owner_other.go on other systems
