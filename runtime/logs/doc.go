// Package logs reads the logs that a runtime writes for containers, in CRI's format,
// as kubectl logs wants them.
//
// [Reader.Read] takes the options of the Kubernetes API, v1.PodLogOptions, and does
// what they say for the log of one instance of a container:
//
//	follow          goes on until the container has ended and all was read
//	tailLines       begins that many lines before the end
//	sinceSeconds,   leaves out what was printed before
//	sinceTime
//	limitBytes      ends after so many bytes, those of timestamps included
//	timestamps      begins each line with its time
//	stream          takes stdout or stderr alone
//
// Which instance is meant by previous is for the caller to say: each instance has a
// log of its own. [Attempts] lists those that are there.
//
// # Lines
//
// A runtime cuts long lines into entries, of which all but the last have the tag P.
// Here they are one line again: it counts once for a tail, and has one timestamp. A
// line of any length is read in parts of bounded size. What the two streams of a
// container have printed is handed on in the order of the log, so that a long line
// of one may be interrupted by the other where both go to the same writer.
//
// # Rotation
//
// The log at its path is the newest part. Parts that were rotated away are named
// after it with the time of the rotation, <path>.20060102-150405, and with .gz if
// they are compressed. All that are there are read, the oldest first. A follower
// goes on from one part to the next and loses none, as long as they are not deleted
// before it comes to them.
//
// # Cost
//
// The end of a log is found from its end: a tail costs as much as it prints, however
// large the log is; only compressed parts are read from their beginning. A follower
// of a log that is quiet waits for the file system to tell of a change, and uses no
// CPU. All followers of a Reader share one watch of the system (an inotify instance
// on Linux). If the system has none left the log is looked at every second.
//
// # What is wrong with a log
//
// A part that is no regular file, a link for example, is not read. What is not in
// CRI's format is left out, and so is a compressed part from where it is damaged: a
// [DamagedError] says so in the end. A log that becomes shorter while it is read ends
// with [ErrTruncated]. What is cut off at the end of a log is no error: it may be
// about to be written.
//
//	reader.go   Reader and Log: the parts of a log are found and read
//	options.go  what is wrong with options, and what they mean
//	rotation.go RotationPolicy
//	entry.go    one line of a log; scan.go cuts files into those
//	print.go    entries to what is printed
//	tail.go     where a tail begins
//	parts.go    the files of a log, and Attempts
//	follow.go   what is written while it is read; watch.go tells of that
//	errors.go   what can be wrong
package logs
