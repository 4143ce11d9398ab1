// Package logs reads container logs in CRI's format, with kubectl logs' options, as a kubelet's ReadLogs does.
// A server imports it to answer kubectl logs.
//
// [Reader.Read] reads one container instance's log with the options in the Kubernetes API,
// v1.PodLogOptions:
//
//	follow          waits for more until the container has ended
//	tailLines       begins that many lines before the end
//	sinceSeconds,   skips older lines
//	sinceTime
//	limitBytes      ends after that many bytes, timestamps included
//	timestamps      begins each line with its time
//	stream          reads only stdout or only stderr
//
// The caller resolves the option previous, because each instance has its own log. [Attempts] lists
// the instances that have a log.
//
// # Lines
//
// A runtime splits a long line into entries; all but the last have the tag P. A Reader joins the
// entries again: the line counts once for a tail, and has one timestamp. A line of any length is
// read in bounded chunks. The two streams' output is written in the log's order. If both streams go
// to the same writer, the other stream may interrupt a long line.
//
// # Rotation
//
// A log's newest part is the file at the log's path. Rotated parts have the rotation time appended
// to their names, <path>.20060102-150405, and .gz if they are compressed. A Reader reads all
// existing parts, the oldest first. A follower moves from one part to the next. It loses lines only
// if a part is deleted before the follower has read it.
//
// # Cost
//
// A tail's beginning is found by reading backwards, so the cost depends on the tail's size and not
// the log's. Only compressed parts are read from their beginning. An idle log's follower waits for a
// notification from the file system and uses no CPU. All a Reader's followers share one watcher (an
// inotify instance on Linux). If the system has no watcher left, a follower polls every second.
//
// # Damaged logs
//
// Only regular files are read; a part that is a link, for example, is skipped. Lines that are not in
// CRI's format are skipped, and so is what follows damage in a compressed part. Read reports both at
// the end in a [DamagedError]. If a log becomes shorter while it is read, the read ends with
// [ErrTruncated]. An incomplete entry at a log's end is not an error, because the runtime may be
// about to complete it.
package logs

// The files:
//
//	reader.go   Reader and Log: finds and reads the parts of a log
//	options.go  validates and interprets options
//	rotation.go RotationPolicy
//	entry.go    one line of a log; scan.go splits files into lines
//	print.go    prints entries
//	tail.go     where a tail begins
//	parts.go    the files of a log, and Attempts
//	follow.go   prints lines as they are written; watch.go watches directories
//	errors.go   errors
