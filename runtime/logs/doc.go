// Package logs reads container logs in CRI's format, with the options of kubectl logs.
//
// [Reader.Read] reads the log of one instance of a container with the options of the Kubernetes
// API, v1.PodLogOptions:
//
//	follow          waits for more until the container has ended
//	tailLines       begins that many lines before the end
//	sinceSeconds,   skips older lines
//	sinceTime
//	limitBytes      ends after that many bytes, timestamps included
//	timestamps      begins each line with its time
//	stream          reads only stdout or only stderr
//
// The caller resolves the option previous: each instance has a log of its own. [Attempts] lists the
// existing ones.
//
// # Lines
//
// A runtime splits a long line into entries, tagged P except for the last. A Reader joins them
// again: the line counts once for a tail, and has one timestamp. A line of any length is read in
// chunks of bounded size. The output of the two streams is written in the order of the log, so if
// both go to the same writer, a long line of one stream may be interrupted by the other.
//
// # Rotation
//
// The file at the log's path is the newest part. Rotated parts have the time of the rotation
// appended to their names, <path>.20060102-150405, and .gz if they are compressed. A Reader reads
// all existing parts, the oldest first. A follower moves from one part to the next and loses no
// line unless a part is deleted before the follower reads it.
//
// # Cost
//
// A tail is found by reading backwards: it costs as much as it prints, whatever the size of the
// log; only compressed parts are read from their beginning. A follower of an idle log waits for a
// notification from the file system and uses no CPU. All followers of a Reader share one watcher
// (an inotify instance on Linux). If the system has no watcher left, a follower polls every second.
//
// # Damaged logs
//
// A part that is not a regular file, such as a link, is not read. Lines that are not in CRI's
// format are skipped, and so is the rest of a compressed part after damage: Read reports them at
// the end in a [DamagedError]. A log that becomes shorter while it is read ends with
// [ErrTruncated]. An incomplete entry at the end of a log is not an error: the runtime may be about
// to complete it.
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
package logs
