package logs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// follow prints a log, and then the lines added to it until its container has ended.
func (r *Reader) follow(ctx context.Context, log Log, read *reading) error {
	ctx, cancel := context.WithCancel(ctx)
	// The watch begins before the first read, so that no change between a read and a wait is
	// missed.
	changed, leave := r.watches.join(filepath.Dir(log.Path))
	ended, wait := end(ctx, log.Ended)
	defer func() {
		cancel()
		leave()
		wait()
	}()
	newest, start, err := read.begin(ctx)
	if err != nil || newest == nil {
		return err
	}
	f := &follower{reading: read, changed: changed, ended: ended}
	f.turnTo(newest, start)
	defer func() { f.file.Close() }()
	return f.run(ctx)
}

// end sends ended's result, which returns when the container has ended. The returned function
// waits until ended has returned; the caller must end the context first.
func end(ctx context.Context, ended func(context.Context) error) (<-chan error, func()) {
	done := make(chan error, 1)
	if ended == nil {
		done <- nil
		return done, func() {}
	}
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		done <- ended(ctx)
	}()
	return done, func() { <-returned }
}

// A follower prints the lines added to a log.
type follower struct {
	*reading
	file    *os.File
	scan    *scanner
	changed <-chan struct{}
	ended   <-chan error
}

// turnTo continues with another file.
func (f *follower) turnTo(file *os.File, start int64) {
	f.file = file
	f.scan = newScanner(io.NewSectionReader(file, start, math.MaxInt64-start), start)
}

func (f *follower) run(ctx context.Context) error {
	over := false
	var failed error
	for {
		moved, err := f.printNew(ctx)
		switch {
		case err != nil:
			return err
		case moved:
			continue
		case over:
			return cmp.Or(f.flush(f.log, f.scan), failed)
		}
		select {
		case <-ctx.Done():
		case <-f.changed:
		case failed = <-f.ended:
			over = true // the container has written everything; read once more
		}
		if err := ctx.Err(); err != nil { // Ended may return its own error when the context ends
			return err
		}
	}
}

// printNew prints the added lines. It reports whether it has moved to another file.
func (f *follower) printNew(ctx context.Context) (moved bool, err error) {
	moved = f.moved()
	if err := f.drain(ctx, f.log, f.scan); err != nil {
		return false, err
	}
	if f.scan.failed != nil { // a retry would fail at the same place
		return false, fmt.Errorf("logs: %s: %w", f.log, f.scan.failed)
	}
	if err := f.shrunk(); err != nil || !moved {
		return false, err
	}
	return true, f.next(ctx)
}

// moved reports whether another file is the newest part. While that file is empty, the runtime may
// still write to the previous one.
func (f *follower) moved() bool {
	info, err := f.root.Lstat(f.log)
	return err == nil && info.Size() > 0 && !f.isAt(f.file, f.log)
}

// shrunk returns an error if the file is shorter than what was already read.
func (f *follower) shrunk() error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.scan.read() {
		return fmt.Errorf("logs: %s: %w", f.log, ErrTruncated)
	}
	return nil
}

// next prints the parts after the current file, and continues with the newest.
func (f *follower) next(ctx context.Context) error {
	newest, parts, err := f.parts()
	if err != nil || newest == nil {
		return err // the new file was removed again
	}
	if same(newest, f.file) {
		return newest.Close()
	}
	parts = parts[f.after(ctx, parts):]
	last := f.file
	defer last.Close()
	err = cmp.Or(f.flush(f.log, f.scan), f.printParts(ctx, parts))
	f.turnTo(newest, 0)
	return err
}

func same(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return cmp.Or(errX, errY) == nil && os.SameFile(x, y)
}

// after returns how many parts are at least as new as the current file. If the current file is not
// among them, it was deleted, and was older than all.
func (f *follower) after(ctx context.Context, parts []part) int {
	head := headOf(f.file)
	i := slices.IndexFunc(parts, func(p part) bool {
		if f.isAt(f.file, p.name) {
			return true
		}
		c, err := openCompressed(ctx, f.root, p.name+compressed, 0)
		if err != nil {
			return false
		}
		defer c.Close()
		return bytes.Equal(head, headOf(c))
	})
	return i + 1
}

// headOf returns a file's beginning. The beginning identifies the file even after compression,
// because it contains a timestamp with nanoseconds.
func headOf(r io.Reader) []byte {
	if f, ok := r.(io.ReaderAt); ok {
		r = io.NewSectionReader(f, 0, maxHead)
	}
	head, _ := io.ReadAll(io.LimitReader(r, maxHead)) // as much as can be read
	return head
}
