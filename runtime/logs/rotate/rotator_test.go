package rotate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/logs"
)

const logDir = "default_web_uid/app"

// A writer is a runtime that writes the log of one container, numbered lines.
type writer struct {
	*testing.T
	dir     string
	file    *os.File
	written int
	reopens int
	// effects and answers are the results of the next calls. All later calls succeed.
	effects []bool
	answers []error
}

func newWriter(t *testing.T, root string) *writer {
	t.Helper()
	w := &writer{T: t, dir: filepath.Join(root, filepath.FromSlash(logDir))}
	must.Do(t, os.MkdirAll(w.dir, 0o755))
	w.reopen()
	t.Cleanup(func() { w.file.Close() })
	return w
}

func (w *writer) reopen() {
	w.Helper()
	file := must.Get(os.OpenFile(filepath.Join(w.dir, "0.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640))(w.T)
	if w.file != nil {
		w.file.Close()
	}
	w.file = file
}

// print writes so many lines of 100 bytes.
func (w *writer) print(lines int) {
	w.Helper()
	for range lines {
		text := fmt.Sprintf("2026-11-22T12:00:00.%09dZ stdout F %d ", w.written, w.written)
		must.Get(fmt.Fprintf(w.file, "%s%s\n", text, strings.Repeat("x", 99-len(text))))(w.T)
		w.written++
	}
}

// ReopenContainerLog has the effect and the answer that are due.
func (w *writer) ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest, ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error) {
	w.reopens++
	effect, answer := true, error(nil)
	if len(w.answers) > 0 {
		effect, answer = w.effects[0], w.answers[0]
		w.effects, w.answers = w.effects[1:], w.answers[1:]
	}
	if effect {
		w.reopen()
	}
	return &runtimeapi.ReopenContainerLogResponse{}, answer
}

// next sets the result of the next call.
func (w *writer) next(effect bool, answer error) {
	w.effects, w.answers = append(w.effects, effect), append(w.answers, answer)
}

// read returns the numbers of the lines that a reader gets.
func (w *writer) read() []string {
	w.Helper()
	var out bytes.Buffer
	must.Do(w.T, new(logs.Reader).Read(w.Context(), logs.Log{Path: filepath.Join(w.dir, "0.log")}, nil, &out, &out))
	var numbers []string
	for line := range strings.Lines(out.String()) {
		number, _, _ := strings.Cut(line, " ")
		numbers = append(numbers, number)
	}
	return numbers
}

// whole fails the test unless every line is present once, in order.
func (w *writer) whole(when string) {
	w.Helper()
	got := w.read()
	for i, number := range got {
		if number != fmt.Sprint(i) {
			w.Fatalf("%s: line %d is %s, of %d: %v, want %v", when, i, number, w.written, w.names(), fmt.Sprint(i))
		}
	}
	if len(got) != w.written {
		w.Fatalf("%s: %d lines are there, want %d: %v", when, len(got), w.written, w.names())
	}
}

func (w *writer) names() []string {
	w.Helper()
	entries := must.Get(os.ReadDir(w.dir))(w.T)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// onePod is a runtime.Cache with a container that runs.
type onePod struct{ container, state string }

func (onePod) UIDs() []types.UID { return []types.UID{"uid"} }

func (p onePod) Get(types.UID) (*runtime.PodStatus, error) {
	s := &runtime.PodStatus{UID: "uid", Namespace: "default", Name: "web"}
	c := runtime.ContainerStatus{Name: "app", State: runtime.ContainerRunning}
	c.ID.ID = "id"
	if p.container != "" {
		c.Name = p.container
	}
	if p.state != "" {
		c.State = runtime.ContainerExited
	}
	s.Containers = append(s.Containers, c)
	return s, nil
}

func newRotator(t *testing.T, root string, w Reopener, p Policy) *Rotator {
	t.Helper()
	return must.Get(New(Config{Pods: onePod{}, Runtime: w, LogsRoot: root, Policy: p}))(t)
}

func inBubble(t *testing.T, test func(t *testing.T, root string)) {
	t.Helper()
	root := t.TempDir()
	synctest.Test(t, func(t *testing.T) { test(t, root) })
}

func TestRotate(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := newRotator(t, root, w, Policy{MaxSize: 1000, MaxFiles: 3})
		pass := func(want ...string) {
			t.Helper()
			must.Do(t, r.Rotate(t.Context()))
			if got := w.names(); !slices.Equal(got, want) {
				t.Errorf("there are %v, want %v", got, want)
			}
			time.Sleep(10 * time.Second)
		}
		at := time.Now().Local()
		stamp := func(pass int) string {
			return "0.log." + at.Add(time.Duration(pass)*10*time.Second).Format("20060102-150405")
		}
		w.print(9)
		pass("0.log")
		w.print(1)
		pass("0.log", stamp(1))
		w.whole("rotated once")
		pass("0.log", stamp(1))
		w.print(12)
		pass("0.log", stamp(1)+".gz", stamp(3))
		w.whole("rotated twice")
		w.print(10)
		pass("0.log", stamp(3)+".gz", stamp(4))
		if got := w.read(); got[0] != "10" || len(got) != 22 {
			t.Errorf("the oldest lines are not gone: %v", got)
		}
		if w.reopens != 3 {
			t.Errorf("the runtime was asked %d times, want 3", w.reopens)
		}
		info := must.Get(os.Stat(filepath.Join(w.dir, stamp(3)+".gz")))(t)
		plain := must.Get(os.Stat(filepath.Join(w.dir, stamp(4))))(t)
		if info.Mode() != plain.Mode() || info.ModTime().After(plain.ModTime()) {
			t.Errorf("what was compressed has %v %v, what was not %v %v", info.Mode(), info.ModTime(), plain.Mode(), plain.ModTime())
		}
	})
}

// For any answers and side effects of the runtime, no line is lost or duplicated,
// and rotation continues when the runtime works again.
func TestFailedReopenLosesNoLine(t *testing.T) {
	refused, lost := status.Error(codes.Unknown, "failed to reopen"), status.Error(codes.DeadlineExceeded, "deadline")
	for name, tc := range map[string]struct {
		effect bool
		answer error
		backed bool // the log has its name back
	}{
		"refused":                           {false, refused, true},
		"refused, and done":                 {true, refused, false},
		"not implemented":                   {false, status.Error(codes.Unimplemented, "unknown method"), true},
		"no answer, and not done":           {false, lost, false},
		"no answer, and done":               {true, lost, false},
		"unavailable":                       {false, status.Error(codes.Unavailable, "connection refused"), false},
		"unavailable from now on, and done": {true, status.Error(codes.Unavailable, "reading: EOF"), false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, root string) {
				w := newWriter(t, root)
				r := newRotator(t, root, w, Policy{MaxSize: 1000, MaxFiles: 100})
				for range 3 {
					w.print(11)
					w.next(tc.effect, tc.answer)
					err := r.Rotate(t.Context())
					if err == nil || !strings.Contains(err.Error(), `rotate: log of container "app" of pod default/web: reopen 0.log: it is full: `) {
						t.Errorf("error is %v, want an error and %q in it", err, `rotate: log of container "app" of pod default/web: reopen 0.log: it is full: `)
					}
					w.whole("after the failure")
					if there := slices.Contains(w.names(), "0.log"); there != (tc.backed || tc.effect) {
						t.Errorf("after the failure there are %v", w.names())
					}
					w.print(1)
					asked := w.reopens
					must.Do(t, r.Rotate(t.Context()))
					if w.reopens != asked {
						t.Error("it is tried again at once")
					}
					time.Sleep(time.Minute)
					must.Do(t, r.Rotate(t.Context()))
					w.print(1)
					w.whole("when all is well")
				}
			})
		})
	}
}

// A late effect of a call that has timed out: the runtime begins a new file unexpectedly.
func TestLateReopenLosesNoLine(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := newRotator(t, root, w, Policy{MaxSize: 1000, MaxFiles: 100})
		w.print(11)
		w.next(false, status.Error(codes.DeadlineExceeded, "deadline"))
		if err := r.Rotate(t.Context()); err == nil {
			t.Error("Rotate returns no error after a lost answer")
		}
		w.print(3)
		w.reopen()
		for range 3 {
			w.print(11)
			time.Sleep(time.Minute)
			must.Do(t, r.Rotate(t.Context()))
			w.whole("later")
		}
	})
}

// A runtime that writes no log files is called with increasing back-off, without an error.
func TestRuntimeWithoutLogFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		must.Do(t, os.Remove(filepath.Join(w.dir, "0.log")))
		for range 360 {
			w.next(false, nil)
		}
		r := newRotator(t, root, w, Policy{})
		for range 360 {
			must.Do(t, r.Rotate(t.Context()))
			time.Sleep(firstPause)
		}
		if w.reopens < 6 || w.reopens > 14 {
			t.Errorf("%d reopens in an hour, want about 12", w.reopens)
		}
		w.effects, w.answers = nil, nil
		time.Sleep(maxPause)
		for range 2 {
			must.Do(t, r.Rotate(t.Context()))
		}
		must.Get(os.Stat(filepath.Join(w.dir, "0.log")))(t)
	})
}

// A log that cannot be full yet is not looked at: a pipe that takes its place is noticed only when the log might be full.
func TestLogThatCannotBeFullIsNotLookedAt(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := newRotator(t, root, w, Policy{})
		for range 2 { // the first pass reads the directory, the second the size
			must.Do(t, r.Rotate(t.Context()))
		}
		must.Do(t, os.Remove(filepath.Join(w.dir, "0.log")))
		must.Do(t, os.Mkdir(filepath.Join(w.dir, "0.log"), 0o755))
		time.Sleep(maxLook - time.Nanosecond)
		must.Do(t, r.Rotate(t.Context()))
		time.Sleep(time.Nanosecond)
		if err := r.Rotate(t.Context()); err == nil {
			t.Error("a log is not looked at after the longest time")
		}
	})
}

// The directory of a container that logs elsewhere is not opened in each pass.
func TestContainerThatLogsElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		must.Do(t, os.RemoveAll(w.dir))
		r := newRotator(t, root, w, Policy{MaxSize: 1000})
		must.Do(t, r.Rotate(t.Context()))
		must.Do(t, os.MkdirAll(w.dir, 0o755))
		w.reopen()
		w.print(11)
		time.Sleep(missingPause - time.Nanosecond)
		must.Do(t, r.Rotate(t.Context()))
		if got := w.names(); len(got) != 1 {
			t.Errorf("a directory that did not exist was opened in the next pass: %v", got)
		}
		time.Sleep(time.Nanosecond)
		must.Do(t, r.Rotate(t.Context()))
		if got := w.names(); len(got) != 2 {
			t.Errorf("a log that exists after all is not rotated: %v", got)
		}
	})
}

// twoPods is a runtime that claims that two pods have one container.
type twoPods struct{ onePod }

func (twoPods) UIDs() []types.UID { return []types.UID{"a", "b"} }

// Two goroutines would use one log's state.
func TestOneContainerOfTwoPods(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := must.Get(New(Config{Pods: twoPods{}, Runtime: w, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
		for range 3 {
			if logs := r.update(); len(logs) != 1 {
				t.Fatalf("%d logs, want 1", len(logs))
			}
		}
	})
}

// A failed rotation is retried with increasing back-off. So is the rotation of a missing log.
func TestFailuresAreTriedAgainEverMoreRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := newRotator(t, root, w, Policy{MaxSize: 1000})
		w.print(11)
		for range 1000 {
			w.next(false, status.Error(codes.Unknown, "failed"))
		}
		for range 6 * 60 {
			_ = r.Rotate(t.Context())
			time.Sleep(10 * time.Second)
		}
		if w.reopens < 8 || w.reopens > 14 {
			t.Errorf("the runtime was asked %d times in an hour", w.reopens)
		}
	})
}

// A compression that fails is tried again ever more rarely, though the rotation before it succeeds each
// time, until a compression succeeds.
func TestFailedCompressionIsTriedAgainEverMoreRarely(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		w := newWriter(t, root)
		r := newRotator(t, root, w, Policy{MaxSize: 1000})
		tries, full := 0, true
		r.compress = func(ctx context.Context, dir folder, name, to string, p *partial) (bool, error) {
			if tries++; full {
				return false, errors.New("no space left on device")
			}
			return compress(ctx, dir, name, to, p)
		}
		w.print(11)
		must.Do(t, r.Rotate(t.Context()))
		time.Sleep(10 * time.Second)
		w.print(11)
		for range 6 * 60 {
			_ = r.Rotate(t.Context())
			time.Sleep(10 * time.Second)
		}
		if tries < 8 || tries > 14 {
			t.Errorf("it was compressed %d times in an hour", tries)
		}
		full = false
		time.Sleep(maxPause)
		must.Do(t, r.Rotate(t.Context()))
		if names := w.names(); len(names) != 3 || !strings.HasSuffix(names[1], compressed) {
			t.Errorf("with space there are %v", names)
		}
		tries, full = 0, true
		w.print(11)
		for range 2 {
			if err := r.Rotate(t.Context()); err == nil {
				t.Error("a compression that fails is not reported")
			}
			time.Sleep(firstPause)
		}
		if tries != 2 {
			t.Errorf("after a success, a compression that fails is tried %d times in %v, want 2", tries, 2*firstPause)
		}
		w.whole("at the end")
	})
}

// crashing is a folder in which the agent ends before its nth change.
type crashing struct {
	*os.Root
	left *int
}

var errCrashed = errors.New("the agent has ended")

func (d crashing) step() error {
	if *d.left--; *d.left < 0 {
		return errCrashed
	}
	return nil
}

func (d crashing) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	if err := d.step(); err != nil {
		return nil, err
	}
	return d.Root.OpenFile(name, flag, perm)
}

func (d crashing) Rename(from, to string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.Root.Rename(from, to)
}

func (d crashing) Remove(name string) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.Root.Remove(name)
}

func (d crashing) Chtimes(name string, accessed, modified time.Time) error {
	if err := d.step(); err != nil {
		return err
	}
	return d.Root.Chtimes(name, accessed, modified)
}

// Regardless of when the agent ends, every line is present once, and the next agent completes the
// rotation.
func TestF14_RotationOverACrashAtEachStep(t *testing.T) {
	p := Policy{MaxSize: 1000, MaxFiles: 100}
	most := 0
	for step := range 20 {
		inBubble(t, func(t *testing.T, root string) {
			w := newWriter(t, root)
			r := newRotator(t, root, w, p)
			for range 2 { // so that there is something to compress
				w.print(11)
				must.Do(t, r.Rotate(t.Context()))
				time.Sleep(10 * time.Second)
			}
			w.print(11)
			dir, err := os.OpenRoot(w.dir)
			must.Do(t, err)
			defer dir.Close()
			left := step
			compressions, err := rotateIn(t.Context(), crashing{dir, &left}, "0.log", p, partial{}, func(ctx context.Context) error {
				if left--; left < 0 {
					return status.Error(codes.Canceled, "the agent has ended")
				}
				_, err := w.ReopenContainerLog(ctx, nil)
				return err
			})
			for _, s := range compressions {
				if err == nil {
					_, err = compress(t.Context(), crashing{dir, &left}, s.File, s.To, new(partial))
				}
			}
			if err == nil {
				most = max(most, step)
				return
			}
			w.print(2)
			w.whole(fmt.Sprintf("after a crash at step %d", step))
			next := newRotator(t, root, w, p)
			must.Do(t, next.Rotate(t.Context()))
			w.print(2)
			w.whole(fmt.Sprintf("after the next agent's first pass after step %d", step))
			for _, name := range w.names() {
				if strings.HasSuffix(name, ".tmp") {
					t.Errorf("step %d: %s is left", step, name)
				}
			}
			for range 3 {
				w.print(11)
				time.Sleep(10 * time.Second)
				must.Do(t, next.Rotate(t.Context()))
				w.whole(fmt.Sprintf("later after step %d", step))
			}
		})
	}
	if most < 19 {
		t.Errorf("a rotation without a crash was never seen")
	}
}

// Unexpected files are reported, and left unchanged.
func TestLogsThatAreNotTouched(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(t *testing.T, root string) error
		want string
	}{
		"a link": {func(_ *testing.T, root string) error {
			log := filepath.Join(root, logDir, "0.log")
			return errors.Join(os.Rename(log, filepath.Join(root, "elsewhere")), os.Symlink(filepath.Join(root, "elsewhere"), log))
		}, "0.log is not a regular file"},
		"a link that was rotated": {func(_ *testing.T, root string) error {
			return os.Symlink("../../elsewhere", filepath.Join(root, logDir, "0.log.20261122-120000"))
		}, "0.log.20261122-120000 is not a regular file"},
		"a directory": {func(_ *testing.T, root string) error {
			return os.Mkdir(filepath.Join(root, logDir, "0.log.20261122-120000.gz"), 0o755)
		}, "0.log.20261122-120000.gz is not a regular file"},
		"a link to the logs of another": {func(_ *testing.T, root string) error {
			return errors.Join(os.Rename(filepath.Join(root, logDir), filepath.Join(root, "other")), os.Symlink("../other", filepath.Join(root, logDir)))
		}, "app is not a directory"},
		"a pod's directory that is a link": {func(_ *testing.T, root string) error {
			pod := filepath.Join(root, "default_web_uid")
			return errors.Join(os.Rename(pod, filepath.Join(root, "other")), os.Symlink("other", pod))
		}, "default_web_uid is not a directory"},
		"nothing at all": {func(_ *testing.T, root string) error {
			return os.RemoveAll(filepath.Join(root, "default_web_uid"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, root string) {
				w := newWriter(t, root)
				w.print(50)
				must.Do(t, tc.make(t, root))
				before := tree(t, root)
				err := newRotator(t, root, w, Policy{MaxSize: 1000}).Rotate(t.Context())
				if got := fmt.Sprint(err); err != nil && tc.want == "" || !strings.Contains(got, tc.want) {
					t.Errorf("error is %v, want %q", err, tc.want)
				}
				if after := tree(t, root); !slices.Equal(before, after) || w.reopens > 0 {
					t.Errorf("%d calls, and there are\n%v\nbefore\n%v", w.reopens, after, before)
				}
			})
		})
	}
}

// tree are all files below a directory.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	must.Do(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		info, _ := d.Info()
		names = append(names, fmt.Sprint(path, info.Mode(), info.Size()))
		return err
	}))
	return names
}

func TestNamesThatLeadElsewhere(t *testing.T) {
	root := t.TempDir()
	w := newWriter(t, root)
	for _, name := range []string{"..", "../../etc", "a/b", "."} {
		r := must.Get(New(Config{Pods: onePod{container: name}, Runtime: w, LogsRoot: root}))(t)
		if err := r.Rotate(t.Context()); err == nil || !strings.Contains(err.Error(), "name ") {
			t.Errorf("container %q: %v, want an error and %q in it", name, err, "name ")
		}
	}
}

// Logs of exited containers are not rotated.
func TestStoppedContainersAreLeftAlone(t *testing.T) {
	root := t.TempDir()
	w := newWriter(t, root)
	w.print(100)
	r := must.Get(New(Config{Pods: onePod{state: "exited"}, Runtime: w, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
	must.Do(t, r.Rotate(t.Context()))
	if got := w.names(); !slices.Equal(got, []string{"0.log"}) {
		t.Errorf("there are %v", got)
	}
}

func TestConfig(t *testing.T) {
	good := Config{Pods: onePod{}, Runtime: &writer{}, LogsRoot: "/var/log/pods"}
	for want, change := range map[string]func(*Config){
		"Config.Pods is missing":                         func(c *Config) { c.Pods = nil },
		"Config.Runtime is missing":                      func(c *Config) { c.Runtime = nil },
		`Config.LogsRoot "logs" is not an absolute path`: func(c *Config) { c.LogsRoot = "logs" },
		"Config.Policy.MaxFiles is 1: it must be 2":      func(c *Config) { c.Policy.MaxFiles = 1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

// A follower, and a tail that is longer than the newest file, read all rotated files, compressed or not, and return each line
// once.
func TestFollowOverCompressedParts(t *testing.T) {
	root := t.TempDir()
	w := newWriter(t, root)
	r := newRotator(t, root, w, Policy{MaxSize: 1000, MaxFiles: 4})
	var reader logs.Reader
	over := make(chan struct{})
	log := logs.Log{Path: filepath.Join(w.dir, "0.log"), Ended: func(context.Context) error { <-over; return nil }}
	var out seen
	ended := make(chan error)
	go func() {
		ended <- reader.Read(t.Context(), log, following, &out, nil)
	}()
	for range 8 {
		w.print(7)
		out.await(t, w.written-7) // it is never so far behind that a part is deleted
		w.print(4)
		must.Do(t, r.Rotate(t.Context()))
	}
	w.print(5)
	close(over)
	must.Do(t, <-ended)
	if got := out.numbers(); len(got) != w.written || !slices.IsSortedFunc(got, byNumber) {
		t.Errorf("the follower has seen %d lines, want %d: %v", len(got), w.written, got)
	}
	if names := w.names(); len(names) != 4 || !strings.HasSuffix(names[1], ".gz") || !strings.HasSuffix(names[2], ".gz") {
		t.Errorf("there are %v", names)
	}
	for _, lines := range []int64{3, 5, 6, 20, 30, 38} {
		var tail seen
		must.Do(t, reader.Read(t.Context(), log, tailOf(lines), &tail, nil))
		got := tail.numbers()
		if int64(len(got)) != lines || got[len(got)-1] != fmt.Sprint(w.written-1) || got[0] != fmt.Sprint(int64(w.written)-lines) {
			t.Errorf("a tail of %d is %v, want %v and %v and %v", lines, got, lines, fmt.Sprint(w.written-1), fmt.Sprint(int64(w.written)-lines))
		}
	}
}

// seen is the number of printed lines that were found.
type seen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *seen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *seen) numbers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var numbers []string
	for line := range strings.Lines(s.text.String()) {
		number, _, _ := strings.Cut(line, " ")
		numbers = append(numbers, number)
	}
	return numbers
}

func (s *seen) await(t *testing.T, lines int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(s.numbers()) < lines; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the follower has seen %d lines, want %d", len(s.numbers()), lines)
		}
	}
}

var following = &v1.PodLogOptions{Follow: true}

func tailOf(lines int64) *v1.PodLogOptions { return &v1.PodLogOptions{TailLines: &lines} }

func byNumber(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return cmp.Compare(x, y)
}
