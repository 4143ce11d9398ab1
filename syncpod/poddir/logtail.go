package poddir

import "bytes"

const (
	// maxLogLines and maxLogTail limit the end of a log that replaces a message, in lines and in bytes.
	maxLogLines, maxLogTail = 80, 2048
	// logWindow is the number of bytes that are read from a log's end. It suffices for a
	// message's bytes and lines, each line with its time, stream and tags.
	logWindow = 32 << 10
)

// logTail returns the last output from a container from a log's end in CRI's format: "<time> <stream>
// <tags> <text>", where the tag P means that the next line continues this one. A line in any other form is
// used unchanged: it may be the rest of a line that was cut.
func logTail(end []byte) []byte {
	var out []byte
	lines := bytes.SplitAfter(end, []byte("\n"))
	if n := len(lines); len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	for _, line := range lines[max(0, len(lines)-maxLogLines):] {
		out = append(out, logText(line)...)
	}
	return out[max(0, len(out)-maxLogTail):]
}

// logText returns the container's output in a line in its log.
func logText(line []byte) []byte {
	fields := bytes.SplitN(line, []byte(" "), 4)
	if len(fields) < 4 || string(fields[1]) != "stdout" && string(fields[1]) != "stderr" {
		return line
	}
	if tag, _, _ := bytes.Cut(fields[2], []byte(":")); string(tag) == "P" {
		return bytes.TrimSuffix(fields[3], []byte("\n"))
	}
	return fields[3]
}
