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

// follow prints a log, and what is added to it until its container has ended.
func (r *Reader) follow(ctx context.Context, log Log, read *reading) error {
	ctx, cancel := context.WithCancel(ctx)
	// What changes from now on is told, so that nothing is missed that is written
	// between a read and a wait.
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

// end tells in a channel that a container has ended. The function waits until nothing
// waits for that any more, once the context has ended.
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

// A follower prints what is added to a log.
type follower struct {
	*reading
	file    *os.File
	scan    *scanner
	changed <-chan struct{}
	ended   <-chan error
}

// turnTo goes on with a file.
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
			over = true // all that it has printed is there; it is read once more
		}
		if err := ctx.Err(); err != nil { // Ended may return because of it, with an error of its own
			return err
		}
	}
}

// printNew prints what was added. It reports whether it has gone on to another file.
func (f *follower) printNew(ctx context.Context) (moved bool, err error) {
	moved = f.moved()
	if err := f.drain(ctx, f.log, f.scan); err != nil {
		return false, err
	}
	if f.scan.failed != nil { // it would be read again and again, and nothing after it
		return false, fmt.Errorf("logs: %s: %w", f.log, f.scan.failed)
	}
	if err := f.shrunk(); err != nil || !moved {
		return false, err
	}
	return true, f.next(ctx)
}

// moved reports whether another file is the newest part. As long as that is empty
// the runtime may still write to the one before.
func (f *follower) moved() bool {
	info, err := f.root.Lstat(f.log)
	return err == nil && info.Size() > 0 && !f.isAt(f.file, f.log)
}

// shrunk returns an error if the file is shorter than what was read of it.
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

// next prints what came after the file, and goes on with the newest.
func (f *follower) next(ctx context.Context) error {
	newest, parts, err := f.parts()
	if err != nil || newest == nil {
		return err // it was taken away again
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

// after returns how many of the parts are not newer than the file that was read. One
// that is not among them any more was deleted, being older than all of them.
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

// headOf is the beginning of a file, by which it is known again when it has been
// compressed: the time in it has nine digits of a second.
func headOf(r io.Reader) []byte {
	if f, ok := r.(io.ReaderAt); ok {
		r = io.NewSectionReader(f, 0, maxHead)
	}
	head, _ := io.ReadAll(io.LimitReader(r, maxHead)) // as much of it as can be read
	return head
}
