package stats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// maxFile is larger than any file read here.
	maxFile = 8 << 20
	// firstBuffer is large enough for most of them.
	firstBuffer = 4 << 10
	// noLimit is the smallest number of bytes that means "no limit": version 1 reports about 1<<63.
	noLimit = 1 << 62
)

// files reads files of the node and collects the errors.
type files struct {
	fs.FS
	errs   []error
	buffer []byte // the last file's contents
}

func (f *files) wrong(name, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...)))
}

// read returns a file's contents, valid until the next call, and false if the file does not
// exist or cannot be read.
func (f *files) read(name string) ([]byte, bool) {
	text, err := f.readAll(name)
	switch {
	case isGone(err):
		return nil, false
	case err != nil:
		f.errs = append(f.errs, err)
		return nil, false
	case !bytes.HasSuffix(text, []byte("\n")):
		f.wrong(name, "it is cut off after %d bytes", len(text))
		return nil, false
	}
	return text, true
}

// readAll returns a file's contents, valid until the next call.
func (f *files) readAll(name string) ([]byte, error) {
	file, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for f.buffer = f.buffer[:0]; len(f.buffer) <= maxFile; {
		f.buffer = slices.Grow(f.buffer, firstBuffer)
		n, err := file.Read(f.buffer[len(f.buffer):cap(f.buffer)])
		f.buffer = f.buffer[:len(f.buffer)+n]
		if err == io.EOF {
			return f.buffer, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s: it has more than %d bytes", name, maxFile)
}

// isGone reports whether the error means that the file, cgroup or process no longer exists.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH)
}

// must is like read, but a missing file is an error.
func (f *files) must(name string) ([]byte, bool) {
	before := len(f.errs)
	text, ok := f.read(name)
	if !ok && len(f.errs) == before {
		f.wrong(name, "it is not there: %w", fs.ErrNotExist)
	}
	return text, ok
}

// number returns the number that the file consists of.
func (f *files) number(name string) *uint64 {
	text, ok := f.read(name)
	if !ok {
		return nil
	}
	return f.parse(name, "it", strings.TrimSpace(string(text)))
}

// parse parses an amount. It returns nil if the text is not a number or too large.
func (f *files) parse(name, what, text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= noLimit {
		f.wrong(name, "%s has %.40q, which is no amount", what, text)
		return nil
	}
	return &n
}

// limit returns the limit in a file, or nil if there is none.
func (f *files) limit(name string) *uint64 {
	text, ok := f.read(name)
	if !ok {
		return nil
	}
	limit := strings.TrimSpace(string(text))
	if n, err := strconv.ParseUint(limit, 10, 64); limit == "max" || err == nil && n >= noLimit {
		return nil
	}
	return f.parse(name, "it", limit)
}

// keyed returns the numbers of the given keys. Each line in the text has a key, optionally followed
// by a colon, and a number, optionally followed by a unit.
func (f *files) keyed(name string, text []byte, keys ...string) map[string]*uint64 {
	found := make(map[string]*uint64, len(keys))
	for line := range bytes.Lines(text) {
		if len(found) == len(keys) {
			break
		}
		key, rest, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		for _, k := range keys {
			if key == k {
				value, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				found[k] = f.parse(name, k, value)
			}
		}
	}
	for _, k := range keys {
		if _, ok := found[k]; !ok {
			f.wrong(name, "it has no %s", k)
		}
	}
	return found
}

// scaled returns n converted to another unit, nil if n is nil.
func scaled(n *uint64, unit uint64) *uint64 {
	if n == nil || *n > math.MaxUint64/unit {
		return nil
	}
	return new(*n * unit)
}

// less returns a minus b, at least 0, and nil if either is nil.
func less(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a - min(*a, *b))
}
