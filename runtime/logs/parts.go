package logs

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/internal/base/regular"
)

const (
	// rotatedFormat is the time of a rotation in the name of what was rotated away.
	rotatedFormat = "20060102-150405"
	compressed    = ".gz"
)

// Attempts returns of which instances of a container there are logs in its log
// directory, the oldest first: the attempts from which the logs' names are made. A
// directory that is not there has none.
func Attempts(dir string) ([]uint32, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var attempts []uint32
	for _, e := range entries {
		number, rest, _ := strings.Cut(e.Name(), ".")
		n, err := strconv.ParseUint(number, 10, 32)
		if err == nil && e.Type().IsRegular() && (rest == "log" || isRotated(rest, "log")) {
			attempts = append(attempts, uint32(n))
		}
	}
	slices.Sort(attempts)
	return slices.Compact(attempts), nil
}

// isRotated reports whether a name is that of a part of a log that was rotated away.
func isRotated(name, log string) bool {
	stamp, ok := strings.CutPrefix(name, log+".")
	_, err := time.Parse(rotatedFormat, strings.TrimSuffix(stamp, compressed))
	return ok && err == nil
}

// A part is one of the files of a log, but for the newest.
type part struct {
	name string // without the ending of a compressed one
	// start is where it is read from, in what is not compressed.
	start int64
}

// rotated returns the parts of a log that were rotated away, the oldest first. A part that is replaced by its
// compressed file meanwhile is among them.
func rotated(root *os.Root, log string) ([]part, error) {
	all, err := regular.Names(root, ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if isRotated(name, log) {
			names = append(names, strings.TrimSuffix(name, compressed))
		}
	}
	slices.Sort(names)
	var parts []part
	for _, name := range slices.Compact(names) { // while it is compressed there are both
		parts = append(parts, part{name: name})
	}
	return parts, nil
}

// open opens a part from a place in it. It may have been compressed meanwhile.
func (p part) open(ctx context.Context, root *os.Root, start int64) (io.ReadCloser, error) {
	f, err := openRegular(root, p.name)
	if err == nil {
		_, err = f.Seek(start, io.SeekStart)
		return f, closeIf(f, err)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return openCompressed(ctx, root, p.name+compressed, start)
}

// tailStart returns where the tail begins in the part, and whether that is all of it.
func (p part) tailStart(ctx context.Context, root *os.Root, c *counter) (start int64, whole bool, err error) {
	f, err := openRegular(root, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return forwardTail(func() (io.ReadCloser, error) { return openCompressed(ctx, root, p.name+compressed, 0) }, c)
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, false, err
	}
	return tailStart(untilDone{ctx, f}, info.Size(), c)
}

// written returns when the part was written to last, at the latest, and that it never
// was if that cannot be told.
func (p part) written(root *os.Root) (time.Time, bool) {
	info, err := root.Lstat(p.name)
	if err != nil {
		info, err = root.Lstat(p.name + compressed)
	}
	if err != nil {
		return time.Time{}, false
	}
	return info.ModTime(), true
}

// openRegular opens a regular file. Anything else could block, or lead elsewhere.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, _, err := regular.Open(root, name)
	if errors.Is(err, regular.ErrNotRegular) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	return f, err
}

// openIfThere is openRegular, but returns nil if there is no such file.
func openIfThere(root *os.Root, name string) (*os.File, error) {
	f, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// untilDone is a file whose reads fail once its context has ended: reading all of a large log takes long.
type untilDone struct {
	ctx context.Context
	*os.File
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.File.Read(p)
}

func (u untilDone) ReadAt(p []byte, offset int64) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.File.ReadAt(p, offset)
}

// A compressedFile is read as what was compressed.
type compressedFile struct {
	*gzip.Reader
	file untilDone
}

func (f compressedFile) Close() error { return f.file.Close() }

// openCompressed opens a compressed part from a place in it, to be read until ctx ends.
func openCompressed(ctx context.Context, root *os.Root, name string, start int64) (io.ReadCloser, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	c := compressedFile{file: untilDone{ctx, f}}
	if c.Reader, err = gzip.NewReader(c.file); err == nil {
		_, err = io.CopyN(io.Discard, c, start)
	}
	return c, closeIf(f, err)
}

// closeIf closes what is of no use after an error, which it returns.
func closeIf(c io.Closer, err error) error {
	if err != nil {
		_ = c.Close() // it was only read
	}
	return err
}
