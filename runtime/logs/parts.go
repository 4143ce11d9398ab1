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

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	//  rotatedFormat is the format of the time in a rotated part's name.
	rotatedFormat = "20060102-150405"
	compressed    = ".gz"
)

// Attempts returns the attempts whose logs exist in a container's log directory, in ascending
// order. It returns none if the directory does not exist.
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

// isRotated reports whether a name belongs to a rotated part of the log.
func isRotated(name, log string) bool {
	stamp, ok := strings.CutPrefix(name, log+".")
	_, err := time.Parse(rotatedFormat, strings.TrimSuffix(stamp, compressed))
	return ok && err == nil
}

// A part is a rotated log file.
type part struct {
	name string // without the compression suffix
	// start is the offset at which to start reading, after decompression.
	start int64
}

// rotated returns a log's rotated parts, the oldest first, including a part whose compressed file is about to replace it.
// It lists the directory twice, because a listing may omit a file that is renamed meanwhile.
func rotated(root *os.Root, log string) ([]part, error) {
	var names []string
	for range 2 {
		all, err := hostfs.Names(root, ".")
		if err != nil {
			return nil, err
		}
		for _, name := range all {
			if isRotated(name, log) {
				names = append(names, strings.TrimSuffix(name, compressed))
			}
		}
	}
	slices.Sort(names)
	var parts []part
	for _, name := range slices.Compact(names) { // during compression both files exist
		parts = append(parts, part{name: name})
	}
	return parts, nil
}

// open opens a part at an offset. The part may have been compressed in the meantime.
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

// tailStart returns where the tail begins in the part, and whether the tail begins in this part.
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

// written returns when something was last written to the part. It returns false if the part no
// longer exists.
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

// openRegular opens a regular file. Opening any other file could block or follow a link.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, _, err := hostfs.Open(root, name)
	if errors.Is(err, hostfs.ErrNotRegular) {
		return nil, fmt.Errorf("%s: %w", name, ErrNotRegular)
	}
	return f, err
}

// openIfThere is like openRegular, but returns nil if the file does not exist.
func openIfThere(root *os.Root, name string) (*os.File, error) {
	f, err := openRegular(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return f, err
}

// untilDone is a file whose reads fail after its context has ended, because reading a large log takes long.
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

// A compressedFile reads a compressed part's decompressed contents.
type compressedFile struct {
	*gzip.Reader
	file untilDone
}

func (f compressedFile) Close() error { return f.file.Close() }

// openCompressed opens a compressed part at an offset. Its reads fail once ctx has ended.
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

// closeIf closes c if err is not nil, and returns err.
func closeIf(c io.Closer, err error) error {
	if err != nil {
		_ = c.Close() // it was opened for reading
	}
	return err
}
