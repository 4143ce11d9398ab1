package logs

import (
	"bytes"
	"time"

	v1 "k8s.io/api/core/v1"
)

// printed returns the expected output for a log. It is as simple as possible: it holds the whole log
// in memory and reads nothing twice.
func printed(log []byte, o *v1.PodLogOptions, now time.Time) (out []byte) {
	w := windowOf(o, now)
	entries := entriesOf(log, w.wanted)
	if w.tail >= 0 {
		entries = lastLines(entries, w.tail)
	}
	var open, skip [2]bool
	for _, e := range entries {
		if !open[e.stream] {
			skip[e.stream] = e.time.Before(w.since)
			if w.timestamps && !skip[e.stream] {
				out = append(out, e.time.Format(stampFormat)+" "...)
			}
		}
		if !skip[e.stream] {
			out = append(out, e.line...)
		}
		open[e.stream] = !bytes.HasSuffix(e.line, []byte("\n"))
	}
	if w.limit >= 0 {
		out = out[:min(int64(len(out)), w.limit)]
	}
	return out
}

type printedEntry struct {
	entry
	line []byte
}

func entriesOf(log []byte, wanted [2]bool) (entries []printedEntry) {
	for line := range bytes.Lines(log) {
		whole := bytes.TrimSuffix(line, []byte("\n"))
		e, ok := parse(whole)
		if !ok || !wanted[e.stream] {
			continue
		}
		text := whole[e.text:]
		if !e.partial && len(whole) < len(line) {
			text = line[e.text:]
		}
		entries = append(entries, printedEntry{e, text})
	}
	return entries
}

// lastLines returns the entries of the last lines. Each line ends with its last entry.
func lastLines(entries []printedEntry, lines int64) []printedEntry {
	var ends []int
	for i, e := range entries {
		last := true
		for _, later := range entries[i+1:] {
			last = last && later.stream != e.stream
		}
		if !e.partial || last {
			ends = append(ends, i)
		}
	}
	if before := len(ends) - int(min(lines, int64(len(ends)))); before > 0 {
		return entries[ends[before-1]+1:]
	}
	return entries
}
