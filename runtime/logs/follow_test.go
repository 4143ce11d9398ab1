package logs

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// patience is the maximum time for which a test waits for an expected event.
const patience = 20 * time.Second

// A followed is a log that a runtime writes and a Reader follows.
type followed struct {
	t      *testing.T
	path   string
	file   *os.File
	wrote  int
	end    chan error
	result chan error
	lines  chan string
}

func numbered(n int) string {
	return fmt.Sprintf("%s stdout F %d\n", time.Date(2026, 1, 2, 3, 4, 5, n, time.UTC).Format(stampFormat), n)
}

func writeCompressed(t *testing.T, path string, text []byte) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	must.Do(t, errors.Join(err, w.Close()))
	writeFile(t, path, b.Bytes())
}

func follow(t *testing.T, ctx context.Context, r *Reader) *followed {
	f := &followed{t: t, path: filepath.Join(t.TempDir(), "0.log"), end: make(chan error, 1), result: make(chan error, 1), lines: make(chan string, 10_000)}
	f.reopen()
	f.print(1)
	ended := func(ctx context.Context) error {
		select {
		case err := <-f.end:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	go func() {
		f.result <- r.Read(ctx, Log{Path: f.path, Ended: ended}, &v1.PodLogOptions{Follow: true}, lineWriter(f.lines), nil)
	}()
	f.want(0, 1)
	return f
}

type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// reopen begins a new file, as a runtime does after ReopenContainerLog.
func (f *followed) reopen() {
	f.t.Helper()
	file := must.Get(os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600))(f.t)
	if f.file != nil {
		f.file.Close()
	}
	f.file = file
	f.t.Cleanup(func() { file.Close() })
}

// print writes the next numbered lines to the log.
func (f *followed) print(lines int) {
	f.t.Helper()
	for range lines {
		must.Get(f.file.WriteString(numbered(f.wrote)))(f.t)
		f.wrote++
	}
}

// rotate renames the log.
func (f *followed) rotate(n int) (old string) {
	f.t.Helper()
	old = fmt.Sprintf("%s.20260102-%06d", f.path, n)
	must.Do(f.t, os.Rename(f.path, old))
	return old
}

// want waits until the follower has printed lines.
func (f *followed) want(from, to int) {
	f.t.Helper()
	for i := from; i < to; i++ {
		select {
		case got := <-f.lines:
			if got != fmt.Sprintln(i) {
				f.t.Fatalf("%q, want line %d", got, i)
			}
		case <-time.After(patience):
			f.t.Fatalf("line %d is not printed", i)
		}
	}
}

// over waits until the follower ends. It must print nothing more.
func (f *followed) over() error {
	f.t.Helper()
	select {
	case err := <-f.result:
		if len(f.lines) > 0 {
			f.t.Errorf("%q was printed", <-f.lines)
		}
		return err
	case <-time.After(patience):
		f.t.Fatal("it does not end")
		return nil
	}
}

func TestFollow(t *testing.T) {
	var r Reader
	f := follow(t, t.Context(), &r)
	for i := range 20 {
		f.print(1)
		f.want(i+1, i+2)
	}
	f.print(500)
	f.end <- nil
	f.want(21, 521) // all lines that were in the log when it ended
	must.Do(t, f.over())
	if r.watches.watcher != nil || len(r.watches.dirs) > 0 {
		t.Error("a watch is left")
	}
}

func TestFollowWaitsForTheEndOfAnEntry(t *testing.T) {
	var r Reader
	f := follow(t, t.Context(), &r)
	entry := numbered(1)
	for _, part := range []string{entry[:10], entry[10:33], entry[33:]} {
		must.Get(f.file.WriteString(part))(t)
		time.Sleep(5 * time.Millisecond) // gives a follower that does not wait the time to fail
	}
	f.want(1, 2)
	f.end <- nil
	must.Do(t, f.over())
}

func TestFollowOverRotation(t *testing.T) {
	var r Reader
	f := follow(t, t.Context(), &r)
	n := 1
	for i := range 5 {
		old := f.rotate(i)
		f.print(2) // the runtime has not reopened the log yet
		f.want(n, n+2)
		f.reopen()
		f.print(2)
		f.want(n+2, n+4)
		n += 4
		text := must.Get(os.ReadFile(old))(t)
		writeCompressed(t, old+".gz", text)
		must.Do(t, os.Remove(old))
	}
	f.rotate(9)
	f.print(1)
	f.end <- nil
	f.want(n, n+1)
	must.Do(t, f.over())
}

// gate blocks a follower's output for a while.
type gate struct {
	lineWriter
	open, waiting chan struct{}
	once          sync.Once
}

func (g *gate) Write(b []byte) (int, error) {
	g.once.Do(func() { close(g.waiting); <-g.open })
	return g.lineWriter.Write(b)
}

// TestFollowBehindRotations: a slow reader gets all lines that were rotated in the meantime.
func TestFollowBehindRotations(t *testing.T) {
	for _, gz := range []bool{false, true} {
		var r Reader
		f := &followed{t: t, path: filepath.Join(t.TempDir(), "0.log"), result: make(chan error, 1), lines: make(chan string, 10_000)}
		f.reopen()
		f.print(3)
		g := &gate{lineWriter: f.lines, open: make(chan struct{}), waiting: make(chan struct{})}
		ended := func(ctx context.Context) error { <-g.open; return nil }
		go func() {
			f.result <- r.Read(t.Context(), Log{Path: f.path, Ended: ended}, &v1.PodLogOptions{Follow: true}, g, nil)
		}()
		<-g.waiting
		for i := range 4 {
			old := f.rotate(i)
			f.reopen()
			f.print(3)
			if gz {
				text := must.Get(os.ReadFile(old))(t)
				writeCompressed(t, old+".gz", text)
				must.Do(t, os.Remove(old))
			}
		}
		close(g.open)
		f.want(0, 15)
		if err := f.over(); err != nil {
			t.Errorf("compressed %t: %v", gz, err)
		}
	}
}

func TestFollowEnds(t *testing.T) {
	var r Reader
	ctx, cancel := context.WithCancel(t.Context())
	f := follow(t, ctx, &r)
	cancel()
	if err := f.over(); !errors.Is(err, context.Canceled) {
		t.Errorf("with its context: %v", err)
	}
	failed := errors.New("the runtime is gone")
	f = follow(t, t.Context(), &r)
	f.print(1)
	f.end <- failed
	f.want(1, 2)
	if err := f.over(); !errors.Is(err, failed) {
		t.Errorf("without a runtime: %v", err)
	}
	if r.watches.watcher != nil {
		t.Error("a watch is left")
	}
}

func TestFollowUntilTheLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeFile(t, path, []byte(strings.Repeat(numbered(1), 3)))
	var r Reader
	var out bytes.Buffer
	ended := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	err := r.Read(t.Context(), Log{Path: path, Ended: ended}, &v1.PodLogOptions{Follow: true, LimitBytes: new(int64(5))}, &out, nil)
	if err != nil || out.String() != "1\n1\n1" {
		t.Errorf("%q, %v, want %q and no error", &out, err, "1\n1\n1")
	}
}

// TestManyFollowers: the system allows 128 watchers for each user.
func TestManyFollowers(t *testing.T) {
	var r Reader
	var all []*followed
	for range 200 {
		all = append(all, follow(t, t.Context(), &r))
	}
	for _, f := range all {
		f.print(1)
	}
	for _, f := range all {
		f.want(1, 2)
		f.end <- nil
	}
	for _, f := range all {
		must.Do(t, f.over())
	}
	if r.watches.watcher != nil {
		t.Error("a watch is left")
	}
}

// TestLook: if the system has no watcher left, changes of a log are still noticed.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, leave := look()
		began := time.Now()
		<-changed
		<-changed
		if waited := time.Since(began); waited != 2*lookInterval {
			t.Errorf("two looks after %v", waited)
		}
		time.Sleep(time.Minute) // the receiver does not read
		leave()
	})
}

func TestJoinOfARemovedDirectory(t *testing.T) {
	var w watches
	_, leave := w.join(filepath.Join(t.TempDir(), "gone"))
	leave()
	if w.watcher != nil {
		t.Error("a watch is left")
	}
}

func TestReadNeedsNoFollower(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	writeFile(t, path, []byte(numbered(1)))
	var r Reader
	ended := func(context.Context) error { t.Error("asked for the end"); return nil }
	must.Do(t, r.Read(t.Context(), Log{Path: path, Ended: ended}, nil, io.Discard, nil))
}
