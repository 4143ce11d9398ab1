package logs

import (
	"bytes"
	"io"
)

// A counter counts lines from the end of a log backwards, over several files.
type counter struct {
	wanted      [2]bool
	want, found int64
	seen        [2]bool // anything of the stream
}

// before takes the next entry, backwards. It reports whether that is before the tail,
// which is so if it ends one line more than are wanted. The last entry of a stream
// ends a line, whole or not.
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

// tailBlock is how much of a file is read at a time, backwards.
const tailBlock = 32 << 10

// tailStart returns where the tail begins in a file of so many bytes, and whether
// that is all of it: otherwise it begins here, or in a file before this one. What is
// read is the tail and at most a block more.
func tailStart(f io.ReaderAt, size int64, c *counter) (start int64, whole bool, err error) {
	if c.want == 0 {
		return size, true, nil
	}
	buf := make([]byte, tailBlock+maxHead)
	end := size // of the line that ends there
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

// begins reports whether the line of so many bytes at the beginning of a text is
// before the tail.
func begins(text []byte, size int64, c *counter) bool {
	line := bytes.TrimSuffix(text[:min(int64(len(text)), size)], []byte{'\n'})
	e, ok := parse(line)
	return ok && c.before(e)
}

// shorter is ErrTruncated for the end of a file where there was more before.
func shorter(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return ErrTruncated
	}
	return err
}

// forwardTail is tailStart for what can only be read from its beginning, which takes
// two turns. Of a file that is damaged what can be read counts.
func forwardTail(open func() (io.ReadCloser, error), c *counter) (start int64, whole bool, err error) {
	lines, err := countLines(open, c)
	if err != nil {
		return 0, false, err
	}
	if c.found += lines; c.found <= c.want {
		return 0, false, nil
	}
	start, err = afterLines(open, c.wanted, c.found-c.want)
	c.found = c.want
	return start, true, err
}

// countLines counts the lines of a file that are of a log's tail.
func countLines(open func() (io.ReadCloser, error), c *counter) (lines int64, err error) {
	var there, partial [2]bool
	_, err = eachEntry(open, func(e entry) bool {
		there[e.stream], partial[e.stream] = true, e.partial
		if c.wanted[e.stream] && !e.partial {
			lines++
		}
		return true
	})
	for s := range there {
		if c.wanted[s] && there[s] && partial[s] && !c.seen[s] {
			lines++ // one that nothing goes on with
		}
		c.seen[s] = c.seen[s] || there[s]
	}
	return lines, err
}

// afterLines returns where a file goes on after so many lines.
func afterLines(open func() (io.ReadCloser, error), wanted [2]bool, lines int64) (offset int64, err error) {
	return eachEntry(open, func(e entry) bool {
		if lines == 0 {
			return false
		}
		if wanted[e.stream] && !e.partial {
			lines--
		}
		return true
	})
}

// eachEntry calls f with each entry as long as that reports true, and returns where
// the first is for which it does not, or the end of the file. What is damaged is passed
// over: that is told when it is printed.
func eachEntry(open func() (io.ReadCloser, error), f func(entry) bool) (offset int64, err error) {
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
		if e, ok := parse(p.text); ok && p.begins && !f(e) {
			return p.offset, nil
		}
	}
}
