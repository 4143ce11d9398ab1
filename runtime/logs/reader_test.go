package logs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/logs"
)

// stamp returns the timestamp of the nth second of a log.
func stamp(n int) string {
	return time.Date(2026, 1, 2, 3, 4, n, 500, time.UTC).Format("2006-01-02T15:04:05.000000000Z07:00")
}

func entry(n int, streamAndTag, text string) string {
	return stamp(n) + " " + streamAndTag + " " + text + "\n"
}

// logAt writes a log and returns its path.
func logAt(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func compress(t *testing.T, path, text string) {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	must.Get(w.Write([]byte(text)))(t)
	must.Do(t, w.Close())
	write(t, path, b.String())
}

func read(t *testing.T, path string, o *v1.PodLogOptions) string {
	t.Helper()
	var r logs.Reader
	var out bytes.Buffer
	if err := r.Read(t.Context(), logs.Log{Path: path}, o, &out, &out); err != nil {
		t.Errorf("%+v: %v", o, err)
	}
	return out.String()
}

func TestRead(t *testing.T) {
	text := entry(1, "stdout F", "one") + entry(2, "stderr F", "two") +
		entry(3, "stdout P", "thr") + entry(4, "stdout P:more", "e") + entry(5, "stdout F", "e") + entry(6, "stderr F", "  four ")
	path := logAt(t, text)
	whole := "one\ntwo\nthree\n  four \n"
	for _, tt := range []struct {
		name string
		o    *v1.PodLogOptions
		want string
	}{
		{"no options", nil, whole},
		{"all", &v1.PodLogOptions{Stream: new(v1.LogStreamAll)}, whole},
		{"stdout", &v1.PodLogOptions{Stream: new(v1.LogStreamStdout)}, "one\nthree\n"},
		{"stderr", &v1.PodLogOptions{Stream: new(v1.LogStreamStderr)}, "two\n  four \n"},
		{"no line", &v1.PodLogOptions{TailLines: new(int64(0))}, ""},
		{"the last line", &v1.PodLogOptions{TailLines: new(int64(1))}, "  four \n"},
		{"a line of several entries", &v1.PodLogOptions{TailLines: new(int64(2))}, "three\n  four \n"},
		{"more lines than there are", &v1.PodLogOptions{TailLines: new(int64(9))}, whole},
		{"the last of a stream", &v1.PodLogOptions{TailLines: new(int64(2)), Stream: new(v1.LogStreamStdout)}, "one\nthree\n"},
		{"since", &v1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 3, 0, time.UTC)}}, "three\n  four \n"},
		{"a line that began before", &v1.PodLogOptions{SinceTime: &metav1.Time{Time: time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC)}}, "  four \n"},
		{"seconds beyond all time", &v1.PodLogOptions{SinceSeconds: new(int64(1 << 62))}, whole},
		{"limit", &v1.PodLogOptions{LimitBytes: new(int64(6))}, "one\ntw"},
		{"limit of a whole line", &v1.PodLogOptions{LimitBytes: new(int64(4))}, "one\n"},
		{"timestamps", &v1.PodLogOptions{Timestamps: true, TailLines: new(int64(2))}, stamp(3) + " three\n" + stamp(6) + "   four \n"},
		{"the limit counts timestamps", &v1.PodLogOptions{Timestamps: true, LimitBytes: new(int64(32))}, stamp(1) + " o"},
		{"a followed log of a container that has ended", &v1.PodLogOptions{Follow: true, TailLines: new(int64(1))}, "  four \n"},
	} {
		if got := read(t, path, tt.o); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestReadSinceSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text string
		for range 10 {
			text += time.Now().Format(time.RFC3339Nano) + " stdout F x\n"
			time.Sleep(time.Second)
		}
		path := logAt(t, text)
		for seconds, want := range map[int64]int{1: 1, 3: 3, 100: 10} {
			if got := read(t, path, &v1.PodLogOptions{SinceSeconds: new(seconds)}); got != strings.Repeat("x\n", want) {
				t.Errorf("the last %d s: %q", seconds, got)
			}
		}
	})
}

func TestReadWritesStreamsApart(t *testing.T) {
	path := logAt(t, entry(1, "stdout P", "o")+entry(2, "stderr F", "e")+entry(3, "stdout F", "ut"))
	var r logs.Reader
	var out, errs bytes.Buffer
	if err := r.Read(t.Context(), logs.Log{Path: path}, nil, &out, &errs); err != nil || out.String() != "out\n" || errs.String() != "e\n" {
		t.Errorf("%q, %q, %v, want String %q and String %q and no error", &out, &errs, err, "out\n", "e\n")
	}
	out.Reset()
	if err := r.Read(t.Context(), logs.Log{Path: path}, nil, &out, nil); err != nil || out.String() != "out\n" {
		t.Errorf("with one writer: %q, %v", &out, err)
	}
}

func TestReadOverRotation(t *testing.T) {
	path := logAt(t, entry(7, "stdout F", "ended")+entry(8, "stdout F", "newest"))
	compress(t, path+".20260102-000001.gz", entry(1, "stdout F", "first")+entry(2, "stdout P", "cut by "))
	write(t, path+".20260102-000002", entry(3, "stdout F", "rotation")+entry(4, "stdout F", "third"))
	compress(t, path+".20260102-000002.gz", "while it is compressed there are both")
	compress(t, path+".20260102-000003.gz", entry(5, "stdout F", "fourth")+entry(6, "stdout P", "not "))
	write(t, path+".20260102-000003.gz.tmp", "half of it")
	write(t, path+".bak", entry(9, "stdout F", "an administrator's copy"))
	write(t, filepath.Join(filepath.Dir(path), "1.log"), entry(9, "stdout F", "another instance"))
	all := []string{"first\n", "cut by rotation\n", "third\n", "fourth\n", "not ended\n", "newest\n"}
	if got := read(t, path, nil); got != strings.Join(all, "") {
		t.Errorf("%q, want %v", got, strings.Join(all, ""))
	}
	for n := range 8 {
		want := strings.Join(all[max(0, len(all)-n):], "")
		if got := read(t, path, &v1.PodLogOptions{TailLines: new(int64(n))}); got != want {
			t.Errorf("the last %d lines: %q, want %q", n, got, want)
		}
	}
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	must.Do(t, os.Chtimes(path+".20260102-000001.gz", old, old))
	since := &v1.PodLogOptions{SinceTime: &metav1.Time{Time: old.Add(time.Hour)}}
	if got := read(t, path, since); strings.Contains(got, "first") {
		t.Errorf("a part that was not written to since was read: %q", got)
	}
}

// Between the two steps of a rotation, there is no file at the log's path.
func TestReadInMidRotation(t *testing.T) {
	path := logAt(t, entry(1, "stdout F", "one"))
	must.Do(t, os.Rename(path, path+".20260102-000001"))
	if got := read(t, path, nil); got != "one\n" {
		t.Errorf("%q, want %q", got, "one\n")
	}
	compress(t, path+".20260102-000001.gz", entry(1, "stdout F", "one"))
	must.Do(t, os.Remove(path+".20260102-000001"))
	for _, follow := range []bool{false, true} {
		if got := read(t, path, &v1.PodLogOptions{Follow: follow}); got != "one\n" {
			t.Errorf("follow %t: %q, want %q", follow, got, "one\n")
		}
	}
}

func TestReadErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ok"), entry(1, "stdout F", "secret"))
	must.Do(t, os.Symlink("ok", filepath.Join(dir, "link")))
	must.Do(t, os.Symlink("/etc/passwd", filepath.Join(dir, "passwd")))
	for _, tt := range []struct {
		path string
		o    *v1.PodLogOptions
		want string // a part of the error's text
		is   error
	}{
		{filepath.Join(dir, "missing"), nil, "missing", fs.ErrNotExist},
		{filepath.Join(dir, "none", "0.log"), nil, "none", fs.ErrNotExist},
		{filepath.Join(dir, "link"), nil, "link", logs.ErrNotRegular},
		{filepath.Join(dir, "passwd"), &v1.PodLogOptions{Follow: true}, "passwd", logs.ErrNotRegular},
		{dir, nil, "not a regular file", logs.ErrNotRegular},
		{"0.log", nil, `Log.Path: "0.log" is not an absolute path`, nil},
		{filepath.Join(dir, "ok"), &v1.PodLogOptions{TailLines: new(int64(-1))}, "tailLines: Invalid value: -1", nil},
		{filepath.Join(dir, "ok"), &v1.PodLogOptions{LimitBytes: new(int64(0))}, "limitBytes: Invalid value: 0", nil},
		{filepath.Join(dir, "ok"), &v1.PodLogOptions{SinceSeconds: new(int64(0))}, "sinceSeconds: Invalid value: 0", nil},
		{filepath.Join(dir, "ok"), &v1.PodLogOptions{SinceSeconds: new(int64(1)), SinceTime: &metav1.Time{}}, "sinceTime: Forbidden", nil},
		{filepath.Join(dir, "ok"), &v1.PodLogOptions{Stream: new("stdlog")}, `stream: Unsupported value: "stdlog"`, nil},
	} {
		var r logs.Reader
		var out bytes.Buffer
		err := r.Read(t.Context(), logs.Log{Path: tt.path}, tt.o, &out, &out)
		if err == nil || !strings.Contains(err.Error(), tt.want) || tt.is != nil && !errors.Is(err, tt.is) || out.Len() > 0 {
			t.Errorf("%s, %+v: %v and %q, want %q", tt.path, tt.o, err, &out, tt.want)
		}
	}
}

func TestReadSkipsDamagedFiles(t *testing.T) {
	head := entry(1, "stdout F", "one")
	path := logAt(t, head+"\x00\x00\x00\n{\"log\":\"of another kind\"}\n"+entry(2, "stdlog F", "x")+entry(3, "stdout F", "two"))
	write(t, path+".20260102-000001.gz", "this is not compressed")
	var r logs.Reader
	var out bytes.Buffer
	err := r.Read(t.Context(), logs.Log{Path: path}, &v1.PodLogOptions{TailLines: new(int64(9))}, &out, &out)
	var damaged *logs.DamagedError
	if !errors.As(err, &damaged) || damaged.Places != 4 || damaged.File != "0.log.20260102-000001" || !errors.Is(err, gzip.ErrHeader) {
		t.Errorf("%v, want 4 damaged places, file %q and error %v", err, "0.log.20260102-000001", gzip.ErrHeader)
	}
	if out.String() != "one\ntwo\n" {
		t.Errorf("%q, want %q", &out, "one\ntwo\n")
	}
	must.Do(t, os.Remove(path+".20260102-000001.gz"))
	err = r.Read(t.Context(), logs.Log{Path: path}, nil, &out, &out)
	if !errors.As(err, &damaged) || damaged.Places != 3 || damaged.File != "0.log" || damaged.Offset != int64(len(head)) {
		t.Errorf("%v, want 3 damaged places, file %q and offset %v", err, "0.log", int64(len(head)))
	}
}

func TestReadOfACutLog(t *testing.T) {
	text := entry(1, "stdout F", "one") + entry(2, "stdout F", "two")
	second := len(entry(1, "stdout F", "one"))
	for n, want := range map[int]string{len(text): "one\ntwo\n", len(text) - 1: "one\ntwo", len(text) - 2: "one\ntw", second + 20: "one\n", second: "one\n", 5: "", 0: ""} {
		path := logAt(t, text[:n])
		for _, o := range []*v1.PodLogOptions{nil, {Follow: true}, {TailLines: new(int64(5))}} {
			if got := read(t, path, o); got != want {
				t.Errorf("%d bytes, %+v: %q, want %q", n, o, got, want)
			}
		}
	}
}

// shrinking truncates a log as soon as a part of it is printed.
type shrinking struct {
	path string
	bytes.Buffer
}

func (s *shrinking) Write(b []byte) (int, error) {
	return len(b), os.Truncate(s.path, 0)
}

func TestReadOfALogThatShrinks(t *testing.T) {
	for _, follow := range []bool{false, true} {
		path := logAt(t, strings.Repeat(entry(1, "stdout F", strings.Repeat("x", 1000)), 100))
		var r logs.Reader
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		log := logs.Log{Path: path, Ended: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}
		err := r.Read(ctx, log, &v1.PodLogOptions{Follow: follow}, &shrinking{path: path}, io.Discard)
		if !errors.Is(err, logs.ErrTruncated) {
			t.Errorf("follow %t: %v", follow, err)
		}
	}
}

// measured counts the written bytes, and records the largest write.
type measured struct{ all, most int }

func (m *measured) Write(b []byte) (int, error) {
	m.all += len(b)
	m.most = max(m.most, len(b))
	return len(b), nil
}

func TestReadOfAHugeLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	const size = 100 << 20
	write(t, path, entry(1, "stdout F", "before")+stamp(2)+" stdout F ")
	if err := os.Truncate(path, size); err != nil { // fills the file with zeros up to the size
		t.Fatal(err)
	}
	for _, o := range []*v1.PodLogOptions{nil, {Timestamps: true, TailLines: new(int64(1))}} {
		var m measured
		var r logs.Reader
		var before, after goruntime.MemStats
		goruntime.ReadMemStats(&before)
		must.Do(t, r.Read(t.Context(), logs.Log{Path: path}, o, &m, &m))
		goruntime.ReadMemStats(&after)
		held := after.TotalAlloc - before.TotalAlloc
		if m.all < size-100 || m.all > size || m.most > 64<<10 || held > 1<<20 {
			t.Errorf("%+v: %d bytes, %d at once, %d allocated", o, m.all, m.most, held)
		}
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	path := logAt(t, entry(1, "stdout F", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var r logs.Reader
	if err := r.Read(ctx, logs.Log{Path: path}, nil, io.Discard, io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Whichever operation the end of the context interrupts, Read returns the context's own error and not
// its cause.
func TestReadReturnsTheErrorOfItsContext(t *testing.T) {
	path := logAt(t, entry(2, "stdout F", "two"))
	write(t, path+".20260102-000001", entry(1, "stdout F", "one"))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller has closed the connection"))
	for _, o := range []*v1.PodLogOptions{nil, {TailLines: new(int64(1))}, {TailLines: new(int64(9))}, {Follow: true}, {Follow: true, TailLines: new(int64(9))}} {
		var r logs.Reader
		if err := r.Read(ctx, logs.Log{Path: path}, o, io.Discard, io.Discard); err != context.Canceled {
			t.Errorf("%+v: error %v, want %v", o, err, context.Canceled)
		}
	}
}

// cancelling is a writer that cancels a context, and then waits until Log.Ended has returned.
type cancelling struct {
	cancel   context.CancelFunc
	returned chan struct{}
}

func (c cancelling) Write(b []byte) (int, error) {
	c.cancel()
	<-c.returned
	return len(b), nil
}

// If the context of a follower ends, Read returns the context's error, and not the error that
// Log.Ended returns because of it.
func TestFollowReturnsTheErrorOfItsContext(t *testing.T) {
	path := logAt(t, entry(1, "stdout F", "one"))
	for range 50 { // chance decides which of the two a follower notices first
		ctx, cancel := context.WithCancel(t.Context())
		out := cancelling{cancel, make(chan struct{})}
		log := logs.Log{Path: path, Ended: func(ctx context.Context) error {
			defer close(out.returned)
			<-ctx.Done()
			return fmt.Errorf("the watch of the container has ended: %v", ctx.Err()) // like a gRPC status, it wraps no error
		}}
		var r logs.Reader
		if err := r.Read(ctx, log, &v1.PodLogOptions{Follow: true}, out, out); err != context.Canceled {
			t.Fatalf("error %v, want %v", err, context.Canceled)
		}
	}
}

func TestReadEndsWithItsWriter(t *testing.T) {
	path := logAt(t, entry(1, "stdout F", "one"))
	pipe, w := io.Pipe()
	pipe.Close()
	var r logs.Reader
	if err := r.Read(t.Context(), logs.Log{Path: path}, nil, w, w); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

func TestAttempts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"10.log", "2.log", "2.log.20260102-000001.gz", "3.log.20260102-000001", "x.log", "4.txt", "99999999999.log", "5.log.gz"} {
		write(t, filepath.Join(dir, name), "")
	}
	if got, err := logs.Attempts(dir); err != nil || !slices.Equal(got, []uint32{2, 3, 10}) {
		t.Errorf("%v, %v, want %v and no error", got, err, []uint32{2, 3, 10})
	}
	if got, err := logs.Attempts(filepath.Join(dir, "none")); err != nil || got != nil {
		t.Errorf("of no directory: %v, %v", got, err)
	}
	if got, err := logs.Attempts(filepath.Join(dir, "x.log")); err == nil {
		t.Errorf("of a file: %v", got)
	}
}

func BenchmarkTail(b *testing.B) {
	path := filepath.Join(b.TempDir(), "0.log")
	must.Do(b, os.WriteFile(path, bytes.Repeat([]byte(entry(1, "stdout F", "a line of some length, as they are")), 1<<20), 0o600))
	for _, lines := range []int64{10, 1000} {
		b.Run(fmt.Sprint(lines), func(b *testing.B) {
			for b.Loop() {
				var r logs.Reader
				must.Do(b, r.Read(b.Context(), logs.Log{Path: path}, &v1.PodLogOptions{TailLines: &lines}, io.Discard, io.Discard))
			}
		})
	}
}
