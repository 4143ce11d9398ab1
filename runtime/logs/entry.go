package logs

import (
	"bytes"
	"time"
)

// A stream is what a container printed to.
type stream uint8

const (
	stdout stream = iota
	stderr
)

// maxHead is enough for all that is before the text of an entry.
const maxHead = 128

// An entry is what is before the text of a line of a log:
//
//	2006-01-02T15:04:05.000000000Z stdout F text
type entry struct {
	time    time.Time
	stream  stream
	partial bool // the next entry of the stream goes on with the line
	text    int  // where the text begins
}

// parse returns the entry that a line, or the beginning of one, is.
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
