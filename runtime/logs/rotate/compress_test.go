package rotate

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// brief is a context that is cancelled after its first check.
type brief struct {
	context.Context
	asked bool
}

func (b *brief) Err() error {
	if b.asked {
		return context.DeadlineExceeded
	}
	b.asked = true
	return nil
}

// A compression that is interrupted repeatedly finishes in the end, and repeats no work.
func TestCompressionIsContinued(t *testing.T) {
	for _, size := range []int{0, 100, memberSize, 2*memberSize + 100} {
		dir, err := os.OpenRoot(t.TempDir())
		must.Do(t, err)
		defer dir.Close()
		text := bytes.Repeat([]byte("a line\n"), size/7+1)[:size]
		must.Do(t, dir.WriteFile("0.log.1", text, 0o640))
		must.Do(t, dir.WriteFile("0.log.1.gz.tmp", []byte("of an earlier agent"), 0o640))
		var p partial
		turns, done := 0, false
		for ; !done && turns < 10; turns++ {
			done = must.Get(compress(&brief{Context: t.Context()}, dir, "0.log.1", "0.log.1.gz", &p))(t)
		}
		if want := size/memberSize + 1; turns != want || !done {
			t.Errorf("%d bytes: done %v after %d turns, want %d", size, done, turns, want)
		}
		file := must.Get(dir.Open("0.log.1.gz"))(t)
		defer file.Close()
		unpacked := must.Get(gzip.NewReader(file))(t)
		if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes: %d are read, %v", size, len(got), err)
		}
		entries, err := os.ReadDir(dir.Name())
		if err != nil || len(entries) != 1 {
			t.Errorf("%d bytes: %v is left, %v", size, entries, err)
		}
	}
}

// A compression is continued only in its own unfinished file. If another file has the name of that
// file, the compression does not write to it, and starts again.
func TestCompressionIsContinuedInItsOwnFile(t *testing.T) {
	for name, replace := range map[string]func(dir *os.Root) error{
		"nothing": func(*os.Root) error { return nil },
		"a link": func(dir *os.Root) error {
			return errors.Join(dir.Remove("0.log.1.gz.tmp"), dir.Symlink("0.log", "0.log.1.gz.tmp"))
		},
		"a hard link": func(dir *os.Root) error {
			return errors.Join(dir.Remove("0.log.1.gz.tmp"), dir.Link("0.log", "0.log.1.gz.tmp"))
		},
		"no file": func(dir *os.Root) error { return dir.Remove("0.log.1.gz.tmp") },
		"a directory": func(dir *os.Root) error {
			return errors.Join(dir.Remove("0.log.1.gz.tmp"), dir.Mkdir("0.log.1.gz.tmp", 0o755))
		},
		"another file of the size": func(dir *os.Root) error {
			info, err := dir.Stat("0.log.1.gz.tmp")
			must.Do(t, errors.Join(err, dir.Rename("0.log.1.gz.tmp", "old")))
			return errors.Join(dir.WriteFile("0.log.1.gz.tmp", make([]byte, info.Size()), 0o640), dir.Remove("old"))
		},
		"the file, cut":         func(dir *os.Root) error { return os.Truncate(filepath.Join(dir.Name(), "0.log.1.gz.tmp"), 10) },
		"the file, with a tail": func(dir *os.Root) error { return os.Truncate(filepath.Join(dir.Name(), "0.log.1.gz.tmp"), 1<<20) },
	} {
		replaced(t, name, replace)
	}
}

// replaced continues a compression after its file was replaced. It fails the test unless the compressed
// file is complete and the log is unchanged.
func replaced(t *testing.T, name string, replace func(dir *os.Root) error) {
	t.Helper()
	dir := must.Get(os.OpenRoot(t.TempDir()))(t)
	defer dir.Close()
	text, log := bytes.Repeat([]byte("a line\n"), memberSize/5), []byte("of the log\n")
	must.Do(t, errors.Join(dir.WriteFile("0.log.1", text, 0o640), dir.WriteFile("0.log", log, 0o640)))
	var p partial
	if done, err := compress(&brief{Context: t.Context()}, dir, "0.log.1", "0.log.1.gz", &p); done || err != nil {
		t.Fatalf("%s: done %v, %v, want a part", name, done, err)
	}
	must.Do(t, replace(dir))
	if done, err := compress(t.Context(), dir, "0.log.1", "0.log.1.gz", &p); !done || err != nil {
		t.Errorf("%s: done %v, %v", name, done, err)
		return
	}
	if got, err := dir.ReadFile("0.log"); err != nil || !bytes.Equal(got, log) {
		t.Errorf("%s: the log has %d bytes, %v, want %d", name, len(got), err, len(log))
	}
	file := must.Get(dir.Open("0.log.1.gz"))(t)
	defer file.Close()
	unpacked := must.Get(gzip.NewReader(file))(t)
	if got, err := io.ReadAll(unpacked); err != nil || !bytes.Equal(got, text) {
		t.Errorf("%s: %d bytes are read, %v, want %d", name, len(got), err, len(text))
	}
}

// A part that was removed while it was compressed, for example with its container, leaves nothing.
func TestCompressionOfAPartThatIsRemoved(t *testing.T) {
	dir, err := os.OpenRoot(t.TempDir())
	must.Do(t, err)
	defer dir.Close()
	must.Do(t, dir.WriteFile("0.log.1", make([]byte, 2*memberSize), 0o640))
	var p partial
	_, err = compress(&brief{Context: t.Context()}, dir, "0.log.1", "0.log.1.gz", &p)
	must.Do(t, errors.Join(err, dir.Remove("0.log.1")))
	if done, err := compress(t.Context(), dir, "0.log.1", "0.log.1.gz", &p); !done || err != nil || p != (partial{}) {
		t.Errorf("done %v, %v, %+v is left", done, err, p)
	}
	if entries, err := os.ReadDir(dir.Name()); err != nil || len(entries) > 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

// The rotated logs of an exited container are compressed, even if that fails at first. Its
// log is not rotated any more. After that, its state is forgotten.
func TestLogOfAContainerThatHasEndedIsCompressed(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		writers := manyWriters{root}
		r := must.Get(New(Config{Pods: manyPods{"web"}, Runtime: writers, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
		turn := func(compress func(ctx context.Context, dir folder, name, to string, p *partial) (bool, error)) error {
			r.compress = compress
			err := r.Rotate(t.Context())
			time.Sleep(firstPause)
			return err
		}
		aPart := func(ctx context.Context, dir folder, name, to string, p *partial) (bool, error) {
			defer func() { <-ctx.Done() }()
			return compress(&brief{Context: ctx}, dir, name, to, p)
		}
		for range 2 {
			writers.fill(t, "web")
			must.Do(t, os.Truncate(filepath.Join(writers.dir("web"), "0.log"), 2*memberSize))
			must.Do(t, turn(aPart))
		}
		r.config.Pods = manyPods{}
		writers.fill(t, "web")
		must.Do(t, turn(aPart))
		failed := turn(func(context.Context, folder, string, string, *partial) (bool, error) { return false, io.ErrShortWrite })
		if !errors.Is(failed, io.ErrShortWrite) {
			t.Errorf("error %v, want %v", failed, io.ErrShortWrite)
		}
		must.Do(t, turn(compress))
		if parts, packed := writers.parts(t, "web"); parts != 2 || packed != 1 {
			t.Errorf("%d parts, %d of them compressed, want 2 and 1", parts, packed)
		}
		if left, err := filepath.Glob(filepath.Join(writers.dir("web"), "*.tmp")); err != nil || len(left) > 0 {
			t.Errorf("%v is left, %v", left, err)
		}
		must.Do(t, turn(compress))
		if len(r.logs) > 0 {
			t.Errorf("%d logs are remembered", len(r.logs))
		}
	})
}

// A log whose directory is removed before it is compressed is forgotten without an error.
func TestLogThatIsRemovedBeforeItIsCompressed(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		writers := manyWriters{root}
		r := must.Get(New(Config{Pods: manyPods{"web"}, Runtime: writers, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
		r.compress = func(ctx context.Context, _ folder, _, _ string, _ *partial) (bool, error) {
			<-ctx.Done()
			return false, nil
		}
		for range 2 {
			writers.fill(t, "web")
			must.Do(t, r.Rotate(t.Context()))
			time.Sleep(time.Second)
		}
		r.config.Pods = manyPods{}
		must.Do(t, os.RemoveAll(filepath.Join(root, "default_web_web")))
		for range 2 {
			must.Do(t, r.Rotate(t.Context()))
		}
		if len(r.logs) > 0 {
			t.Errorf("%d logs are remembered", len(r.logs))
		}
	})
}

// manyPods is a runtime.Cache with pods that have one container each.
type manyPods []string

func (p manyPods) UIDs() (uids []types.UID) {
	for _, name := range p {
		uids = append(uids, types.UID(name))
	}
	return uids
}

func (p manyPods) Get(uid types.UID) (*runtime.PodStatus, error) {
	c := runtime.ContainerStatus{Name: "app", State: runtime.ContainerRunning}
	c.ID.ID = string(uid)
	return &runtime.PodStatus{UID: uid, Namespace: "default", Name: string(uid), Containers: []runtime.ContainerStatus{c}}, nil
}

// manyWriters write the logs of manyPods.
type manyWriters struct{ root string }

func (w manyWriters) dir(pod string) string {
	return filepath.Join(w.root, "default_"+pod+"_"+pod, "app")
}

func (w manyWriters) fill(t *testing.T, pod string) {
	t.Helper()
	must.Do(t, os.MkdirAll(w.dir(pod), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(w.dir(pod), "0.log"), make([]byte, 2000), 0o640))
}

func (w manyWriters) ReopenContainerLog(_ context.Context, req *runtimeapi.ReopenContainerLogRequest, _ ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error) {
	return &runtimeapi.ReopenContainerLogResponse{}, os.WriteFile(filepath.Join(w.dir(req.ContainerId), "0.log"), nil, 0o640)
}

// parts returns the number of rotated files of a log, and how many of them are compressed.
func (w manyWriters) parts(t *testing.T, pod string) (parts, packed int) {
	t.Helper()
	entries := must.Get(os.ReadDir(w.dir(pod)))(t)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), compressed) {
			packed++
		}
		if e.Name() != "0.log" && !strings.HasSuffix(e.Name(), ".tmp") {
			parts++
		}
	}
	return parts, packed
}

// More logs than are compressed at a time take hours to compress. They do not delay the
// rotation of any log, delay other compressions only briefly, and the pass ends.
func TestSlowCompressionDelaysNoOther(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		writers, pods := manyWriters{root}, manyPods{"small"}
		for i := range 2 * parallel {
			pods = append(pods, fmt.Sprintf("huge%d", i))
		}
		r := must.Get(New(Config{Pods: pods, Runtime: writers, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
		r.compress = func(ctx context.Context, dir folder, name, to string, p *partial) (bool, error) {
			if strings.Contains(dir.(*os.Root).Name(), "small") {
				return compress(ctx, dir, name, to, p)
			}
			<-ctx.Done()
			return false, nil
		}
		for pass := range 5 {
			for _, pod := range pods {
				writers.fill(t, pod)
			}
			began := time.Now()
			must.Do(t, r.Rotate(t.Context()))
			if took := time.Since(began); took > compressTime+compressTurn {
				t.Errorf("pass %d takes %v", pass, took)
			}
			for _, pod := range pods {
				if parts, _ := writers.parts(t, pod); parts != min(pass+1, 4) {
					t.Errorf("pass %d: the log of %s has %d parts, want %d", pass, pod, parts, min(pass+1, 4))
				}
			}
			if _, packed := writers.parts(t, "small"); packed != min(pass, 3) {
				t.Errorf("pass %d: %d parts of the small log are compressed, want %d", pass, packed, min(pass, 3))
			}
		}
	})
}

// Logs are compressed in turns: of many each has one before any has a second.
func TestLogsAreCompressedInTurns(t *testing.T) {
	inBubble(t, func(t *testing.T, root string) {
		writers, pods := manyWriters{root}, manyPods{}
		for i := range 40 {
			pods = append(pods, fmt.Sprintf("huge%d", i))
		}
		r := must.Get(New(Config{Pods: pods, Runtime: writers, LogsRoot: root, Policy: Policy{MaxSize: 1000}}))(t)
		var mu sync.Mutex
		turns := map[string]int{}
		r.compress = func(ctx context.Context, dir folder, _, _ string, _ *partial) (bool, error) {
			mu.Lock()
			turns[dir.(*os.Root).Name()]++
			mu.Unlock()
			<-ctx.Done()
			return false, nil
		}
		for range 2 {
			for _, pod := range pods {
				writers.fill(t, pod)
			}
			must.Do(t, r.Rotate(t.Context()))
			time.Sleep(time.Second)
		}
		for range 2 {
			must.Do(t, r.Rotate(t.Context()))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		var counts []int
		for _, n := range turns {
			counts = append(counts, n)
		}
		if len(counts) != len(pods) || slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("the turns of %d logs are %v, want %d with as many each", len(counts), counts, len(pods))
		}
	})
}
