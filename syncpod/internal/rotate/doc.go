// Package rotate keeps the logs of containers that run from filling the disk, as a
// kubelet does: a log that has grown to [Policy.MaxSize] is rotated away, what was
// rotated away before is compressed, and the oldest of it is removed.
//
// [Decide] says what is to be done with the files of one log, step by step. It is a
// pure function of their names and sizes. A [Rotator] does it for all containers that
// run, in a pass that its owner calls every so often. It knows which run from a
// runtime.Cache, so that a pass in which no log is too large makes no call of the
// runtime, and looks at one file for each container.
//
// # Names
//
// The log of a container is <attempt>.log in its directory. It is rotated away to
// <attempt>.log.20060102-150405, with the time of the rotation, and compressed to that
// with .gz at its end. Names grow with each rotation, whatever the clock says, so that
// their order is that of the logs. The newest that was rotated away is not compressed
// before the next rotation. So far all is as a kubelet's; package
// [github.com/podsync/podsync/runtime/logs] reads and follows over it.
//
// # No line is lost
//
// A log is renamed, and then the runtime is asked to write to a new one. It goes on with
// the renamed file until it does. If it refuses, the file gets its name back, unless there
// is a new file all the same. If its answer is lost, nothing is renamed: it may yet begin
// a new file. Of a log that is not there the runtime is asked for again at the next pass.
//
// Compression comes after all rotations of a pass, and takes a bounded time of it: it is
// continued in the next pass, also if the container has ended. A compressed file consists of
// several gzip members.
//
// A file is compressed beside itself, on the disk before it takes its name, and removed
// only then. Wherever the agent ends, every line is in one file at least; where there
// are two of one part, the next agent removes the one that is not compressed, and what
// was compressed in part.
//
// # What is not touched
//
// Nothing but the files of these names. If one of them is a link, a pipe or a directory,
// or their directory is a link, or belongs to another user than the agent's or root,
// nothing is done with that log, and an error says why.
//
//	decide.go    Policy and Decide
//	rotator.go   Rotator: which logs there are, and when a failure is tried again
//	files.go     the steps, carried out; compress.go one of them
//	owner_unix.go   whose a directory is; owner_other.go where there is no such thing
package rotate
