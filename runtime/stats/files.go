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
	// maxFile is more than any file has that is read here.
	maxFile = 8 << 20
	// firstBuffer holds most of them.
	firstBuffer = 4 << 10
	// noLimit is from which value on a number of bytes is no amount: version 1 has about
	// 1<<63 for a limit that is not there.
	noLimit = 1 << 62
)

// files are those of the node. What is wrong with any of them is collected.
type files struct {
	fs.FS
	errs   []error
	buffer []byte // of what was read last
}

func (f *files) wrong(name, format string, args ...any) {
	f.errs = append(f.errs, fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...)))
}

// read returns what is in a file, until the next call, and false if it is not there or
// cannot be read.
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

// readAll returns what is in a file, until the next call.
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

// isGone is true of what went away before it was read, or while it was.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH)
}

// must is read of what has to be there.
func (f *files) must(name string) ([]byte, bool) {
	before := len(f.errs)
	text, ok := f.read(name)
	if !ok && len(f.errs) == before {
		f.wrong(name, "it is not there: %w", fs.ErrNotExist)
	}
	return text, ok
}

// number returns the number that is all there is in a file.
func (f *files) number(name string) *uint64 {
	text, ok := f.read(name)
	if !ok {
		return nil
	}
	return f.parse(name, "it", strings.TrimSpace(string(text)))
}

// parse returns a number, nil if it is none or too large to be an amount.
func (f *files) parse(name, what, text string) *uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= noLimit {
		f.wrong(name, "%s has %.40q, which is no amount", what, text)
		return nil
	}
	return &n
}

// limit returns the limit in a file, nil if there is none.
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

// keyed returns the numbers of some keys in a text with a key and its number in each
// line. A key may end with a colon, and a number be followed by a unit.
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

// scaled returns a number in another unit, nil if it is not known.
func scaled(n *uint64, unit uint64) *uint64 {
	if n == nil || *n > math.MaxUint64/unit {
		return nil
	}
	return new(*n * unit)
}

// less returns a without b, which is never below 0, and nil if one of them is not known.
func less(a, b *uint64) *uint64 {
	if a == nil || b == nil {
		return nil
	}
	return new(*a - min(*a, *b))
}
