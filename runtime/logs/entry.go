package logs

import (
	"bytes"
	"time"
)

// A stream is a container's stdout or stderr.
type stream uint8

const (
	stdout stream = iota
	stderr
)

// maxHead is the maximum length for the fields before an entry's text.
const maxHead = 128

// An entry is one line in a log without its text:
//
//	2006-01-02T15:04:05.000000000Z stdout F text
type entry struct {
	time    time.Time
	stream  stream
	partial bool // the stream's next entry continues the line
	text    int  // where the text begins
}

// parse parses an entry's beginning. The line may be incomplete.
func parse(line []byte) (e entry, ok bool) {
	line = line[:min(len(line), maxHead)]
	stamp, rest, _ := bytes.Cut(line, []byte{' '})
	name, rest, _ := bytes.Cut(rest, []byte{' '})
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return entry{}, false
	}
	switch string(name) {
	case "stdout":
		e.stream = stdout
	case "stderr":
		e.stream = stderr
	default:
		return entry{}, false
	}
	var err error
	if e.time, err = time.Parse(time.RFC3339Nano, string(stamp)); err != nil {
		return entry{}, false
	}
	tag, _, _ := bytes.Cut(tags, []byte{':'})
	e.partial = string(tag) == "P"
	e.text = len(line) - len(text)
	return e, true
}
