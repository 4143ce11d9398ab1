package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A Reader reads logs. The zero Reader is ready for use; its methods may be called concurrently. It
// must not be copied. It holds no resources unless a log is being followed.
type Reader struct {
	watches watches
}

// A Log is one container instance's log.
type Log struct {
	// Path leads to the log's newest part: <sandbox's log
	// directory>/<container>/<attempt>.log. Required.
	Path string
	// Ended waits until the container has ended and the runtime has written all its output to the
	// log. If Ended returns an error other than its context's, the follower reads the rest and
	// ends. Nil means that the container has ended already.
	Ended func(ctx context.Context) error
}

// Read writes the container's stdout to out and its stderr to errs, as o selects; a nil o selects
// everything. The two writers may be the same, or nil. Read calls Write once for each line, or for
// each chunk in a long line.
//
// With Follow, Read returns when the container has ended and its log has been read to the end. Read
// returns errors from a writer or the context unchanged, and errors from Validate as an aggregate.
// If there is no log, the error wraps fs.ErrNotExist.
func (r *Reader) Read(ctx context.Context, log Log, o *v1.PodLogOptions, out, errs io.Writer) error {
	if invalid := Validate(o); len(invalid) > 0 {
		return invalid.ToAggregate()
	}
	if !filepath.IsAbs(log.Path) {
		return fmt.Errorf("logs: Log.Path: %q is not an absolute path", log.Path)
	}
	root, err := os.OpenRoot(filepath.Dir(log.Path))
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	defer root.Close()
	read := &reading{root: root, log: filepath.Base(log.Path), printer: newPrinter(windowOf(o, time.Now()), out, errs)}
	if o != nil && o.Follow {
		err = r.follow(ctx, log, read)
	} else {
		err = read.all(ctx)
	}
	return read.result(ctx, err)
}

// A reading is one call to Read.
type reading struct {
	root *os.Root
	log  string // the name of the log's newest part
	*printer
}

// result converts the error that ended the read to Read's error. If ctx has ended, it returns
// ctx's own error, unwrapped.
func (r *reading) result(ctx context.Context, err error) error {
	ended := ctx.Err()
	switch {
	case errors.Is(err, errLimit):
		return nil
	case ended != nil && errors.Is(err, ended):
		return ended
	case err != nil:
		return err
	case r.damage != nil:
		return fmt.Errorf("logs: %w", r.damage)
	}
	return nil
}

// all prints the log as it is now.
func (r *reading) all(ctx context.Context) error {
	newest, start, err := r.begin(ctx)
	if err != nil || newest == nil {
		return err
	}
	defer newest.Close()
	info, err := newest.Stat()
	if err != nil {
		return err
	}
	// The size is fixed here, because a busy container could otherwise keep the read going forever.
	s := newScanner(io.NewSectionReader(newest, start, info.Size()-start), start)
	if err := r.drain(ctx, r.log, s); err != nil {
		return err
	}
	if s.failed == nil && s.read() < info.Size() {
		return fmt.Errorf("logs: %s: %w", r.log, ErrTruncated)
	}
	return r.flush(r.log, s)
}

// begin prints the selected lines in all parts except the newest, and returns the newest with the
// offset at which to begin. newest is nil if all parts are compressed.
func (r *reading) begin(ctx context.Context) (newest *os.File, start int64, err error) {
	newest, parts, err := r.parts()
	if err != nil {
		return nil, 0, err
	}
	if newest == nil && len(parts) == 0 {
		return nil, 0, fmt.Errorf("logs: %s: %w", filepath.Join(r.root.Name(), r.log), fs.ErrNotExist)
	}
	parts, start, err = r.wantedParts(ctx, newest, parts)
	if err == nil {
		err = r.printParts(ctx, parts)
	}
	if newest != nil {
		err = closeIf(newest, err)
	}
	return newest, start, err
}

// parts returns the log's files. A file that is rotated during the call is returned once.
func (r *reading) parts() (newest *os.File, parts []part, err error) {
	newest, err = openIfThere(r.root, r.log)
	if err != nil {
		return nil, nil, fmt.Errorf("logs: %w", err)
	}
	parts, err = rotated(r.root, r.log)
	if err == nil && newest == nil && len(parts) > 0 {
		// The runtime writes to the rotated file until it is asked to reopen the log.
		newest, err = openIfThere(r.root, parts[len(parts)-1].name)
	}
	if newest == nil {
		return nil, parts, err
	}
	if err != nil {
		return nil, nil, closeIf(newest, err)
	}
	parts = slices.DeleteFunc(parts, func(p part) bool { return r.isAt(newest, p.name) })
	return newest, parts, nil
}

// isAt reports whether the name refers to the open file.
func (r *reading) isAt(f *os.File, name string) bool {
	info, err := r.root.Lstat(name)
	opened, ferr := f.Stat()
	return cmp.Or(err, ferr) == nil && os.SameFile(info, opened)
}

// wantedParts returns the selected parts with the offsets at which to begin in each and in the
// newest.
func (r *reading) wantedParts(ctx context.Context, newest *os.File, parts []part) (wanted []part, start int64, err error) {
	parts = slices.DeleteFunc(parts, func(p part) bool {
		written, ok := p.written(r.root)
		return !ok || r.tooOld(written)
	})
	if r.tail < 0 {
		return parts, 0, nil
	}
	count := &counter{wanted: r.wanted, want: r.tail}
	whole := false
	if newest != nil {
		if start, whole, err = r.tailOf(ctx, newest, count); err != nil {
			return nil, 0, fmt.Errorf("logs: %s: %w", r.log, err)
		}
	}
	for i := len(parts) - 1; i >= 0 && !whole; i-- {
		if parts[i].start, whole, err = parts[i].tailStart(ctx, r.root, count); err != nil {
			// The error is reported when the part is printed.
			parts[i].start, whole = 0, false
		}
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		wanted = append(wanted, parts[i])
	}
	slices.Reverse(wanted)
	return wanted, start, nil
}

func (r *reading) tailOf(ctx context.Context, newest *os.File, count *counter) (start int64, whole bool, err error) {
	info, err := newest.Stat()
	if err != nil {
		return 0, false, err
	}
	return tailStart(untilDone{ctx, newest}, info.Size(), count)
}

// printParts prints parts that no longer grow.
func (r *reading) printParts(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if err := r.printPart(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// printPart prints a part. If the part cannot be read, it records damage and returns nil.
func (r *reading) printPart(ctx context.Context, p part) error {
	f, err := p.open(ctx, r.root, p.start)
	if ended := ctx.Err(); err != nil && ended != nil {
		return ended
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // a part that does not exist was deleted because of its age
			r.damaged(p.name, p.start, err)
		}
		return nil
	}
	defer f.Close()
	s := newScanner(f, p.start)
	if err := r.drain(ctx, p.name, s); err != nil {
		return err
	}
	return r.flush(p.name, s)
}

// drain prints the rest of a file, and records lines that it cannot read as damage.
func (r *reading) drain(ctx context.Context, file string, s *scanner) error {
	var printed error
	err := s.each(func(p piece) error {
		if printed = ctx.Err(); printed == nil {
			printed = r.print(file, p)
		}
		return printed
	})
	if err != nil && printed == nil {
		if printed = ctx.Err(); printed == nil {
			r.damaged(file, s.read(), err)
		}
	}
	return printed
}

// flush prints the rest at a file's end: an incomplete entry, if its fields are complete.
func (r *reading) flush(file string, s *scanner) error {
	rest, ok := s.rest()
	if !ok {
		return nil
	}
	if _, ok := parse(rest.text); rest.begins && !ok {
		return nil
	}
	return r.print(file, rest)
}
