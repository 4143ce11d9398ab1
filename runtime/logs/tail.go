package logs

import (
	"bytes"
	"io"
)

// A counter counts lines backwards from a log's end, across its files.
type counter struct {
	wanted      [2]bool
	want, found int64
	seen        [2]bool // by stream: whether an entry was counted
}

// before counts the next entry, backwards, and reports whether the tail begins after it. It does if
// the entry ends one line more than requested. A stream's last entry ends a line, even if the line
// is incomplete.
func (c *counter) before(e entry) bool {
	if !c.wanted[e.stream] {
		return false
	}
	ends := !e.partial || !c.seen[e.stream]
	c.seen[e.stream] = true
	switch {
	case !ends:
		return false
	case c.found == c.want:
		return true
	}
	c.found++
	return false
}

// tailBlock is how many bytes are read at a time, backwards.
const tailBlock = 32 << 10

// tailStart returns where the tail begins in a file with the given size, and whether it begins in
// this file; otherwise it begins in an earlier one. It reads the tail and at most one block more.
func tailStart(f io.ReaderAt, size int64, c *counter) (start int64, whole bool, err error) {
	if c.want == 0 {
		return size, true, nil
	}
	buf := make([]byte, tailBlock+maxHead)
	end := size // the current line's end
	for high := size; high > 0; {
		low := max(0, high-tailBlock)
		block := buf[:min(high-low+maxHead, size-low)]
		if _, err := f.ReadAt(block, low); err != nil {
			return 0, false, shorter(err)
		}
		for n := int(high - low); ; {
			if n = bytes.LastIndexByte(block[:n], '\n'); n < 0 {
				break
			}
			begin := low + int64(n) + 1
			if begins(block[n+1:], end-begin, c) {
				return end, true, nil
			}
			end = begin
		}
		if low == 0 && begins(block, end, c) {
			return end, true, nil
		}
		high = low
	}
	return 0, false, nil
}

// begins reports whether the text, of the given size, begins before the tail.
func begins(text []byte, size int64, c *counter) bool {
	line := bytes.TrimSuffix(text[:min(int64(len(text)), size)], []byte{'\n'})
	e, ok := parse(line)
	return ok && c.before(e)
}

// shorter replaces an unexpected io.EOF with ErrTruncated.
func shorter(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrTruncated
	}
	return err
}

// forwardTail is tailStart for a file that can only be read forwards. It reads the file twice. In a
// damaged file, only the readable entries count.
func forwardTail(open func() (io.ReadCloser, error), c *counter) (start int64, whole bool, err error) {
	lines, incomplete, err := countLines(open, c)
	if err != nil {
		return 0, false, err
	}
	if c.found += lines; c.found <= c.want {
		return 0, false, nil
	}
	start, err = afterLines(open, c.wanted, incomplete, c.found-c.want)
	c.found = c.want
	return start, true, err
}

// countLines counts the lines in a file that belong to the selected streams. For each stream, it also
// returns the last entry's offset if that entry leaves its line incomplete and no later file has an
// entry from the stream, and -1 otherwise. Such an entry ends a line.
func countLines(open func() (io.ReadCloser, error), c *counter) (lines int64, incomplete [2]int64, err error) {
	var there [2]bool
	incomplete = [2]int64{-1, -1}
	_, err = eachEntry(open, func(e entry, offset int64) bool {
		there[e.stream], incomplete[e.stream] = true, -1
		if e.partial {
			incomplete[e.stream] = offset
		} else if c.wanted[e.stream] {
			lines++
		}
		return true
	})
	for s := range there {
		if !c.wanted[s] || c.seen[s] {
			incomplete[s] = -1
		}
		if incomplete[s] >= 0 {
			lines++
		}
		c.seen[s] = c.seen[s] || there[s]
	}
	return lines, incomplete, err
}

// afterLines returns the offset after that many lines. The entries at the offsets in incomplete end a
// line too.
func afterLines(open func() (io.ReadCloser, error), wanted [2]bool, incomplete [2]int64, lines int64) (offset int64, err error) {
	return eachEntry(open, func(e entry, offset int64) bool {
		if lines == 0 {
			return false
		}
		if wanted[e.stream] && (!e.partial || offset == incomplete[e.stream]) {
			lines--
		}
		return true
	})
}

// eachEntry calls f with each entry and its offset until f returns false, and returns that entry's
// offset, or the file's end. It skips damage, which is reported when the file is printed.
func eachEntry(open func() (io.ReadCloser, error), f func(e entry, offset int64) bool) (offset int64, err error) {
	r, err := open()
	if err != nil {
		return 0, err
	}
	defer r.Close()
	for s := newScanner(r, 0); ; {
		p, err := s.next()
		if err != nil {
			return s.read(), nil
		}
		if e, ok := parse(p.text); ok && p.begins && !f(e, p.offset) {
			return p.offset, nil
		}
	}
}
