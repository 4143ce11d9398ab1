package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/server"
)

// unread are callers that do not read their responses until the test allows it.
type unread struct {
	*node
	mayTake chan struct{}
	asking  sync.WaitGroup
}

// ask sends a request of a user. It returns the status as soon as it is written.
func (d *unread) ask(user, method, path string) int {
	w := &deafWriter{ResponseRecorder: httptest.NewRecorder(), begun: make(chan int, 1), mayTake: d.mayTake}
	r := httptest.NewRequestWithContext(d.Context(), method, path, nil)
	r.Header.Set("User", user)
	d.asking.Go(func() { d.handler.ServeHTTP(refusals{w}, r) })
	return <-w.begun
}

// fill asks until that is refused, and returns how often it was not.
func (d *unread) fill(user, method, path string) (n int) {
	d.Helper()
	for ; n <= 1000; n++ {
		if code := d.ask(user, method, path); code == http.StatusTooManyRequests {
			return n
		} else if code != http.StatusOK {
			d.Fatalf("%s: %d", path, code)
		}
	}
	d.Fatalf("%s: %d callers who read nothing are answered", path, n)
	return n
}

// TestAnswersThatAreNotReadAreBounded checks that the bytes of unread responses are bounded,
// for each user and in total.
func TestAnswersThatAreNotReadAreBounded(t *testing.T) {
	const size = 4 << 20
	large := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range size >> 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				return
			}
		}
	})
	n := newNode(t, func(c *server.Config) {
		c.Authenticator, c.Metrics, c.Timeline, c.Configz = named{}, large, large, strings.Repeat("x", size)
	})
	for i := range 20 {
		n.set(podtest.Pod(fmt.Sprint("pod", i), podtest.Container("app", podtest.Script("sleep infinity"), func(c *v1.Container) {
			c.Env = []v1.EnvVar{{Name: "A", Value: strings.Repeat("x", 105<<10)}, {Name: "B", Value: strings.Repeat("x", 105<<10)}}
		})), isRunning)
	}
	before, _ := inUse()
	for _, path := range []string{"/pods", "/metrics", "/timeline", "/configz"} {
		d := &unread{node: n, mayTake: make(chan struct{})}
		if held := d.fill("ann", "GET", path); held > 64<<20/size+1 || held < 10 {
			t.Errorf("%s: %d answers of %d MiB are held for a user, want 10 to %d", path, held, size>>20, 64<<20/size)
		}
		for _, user := range []string{"bob", "carol"} {
			d.fill(user, "GET", path)
		}
		if held, _ := inUse(); held > before+200<<20 {
			t.Errorf("%s: %d MiB are held", path, (held-before)>>20)
		}
		close(d.mayTake)
		d.asking.Wait()
		if code, text := n.ask("GET", path); code != http.StatusOK || len(text) < size {
			t.Errorf("%s: %d with %d bytes after the others were read, want 200 and all", path, code, len(text))
		}
	}
}

// printing is a runtime whose commands print a lot.
type printing struct {
	runtimeapi.RuntimeServiceClient
}

func (printing) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return &runtimeapi.ExecSyncResponse{Stdout: make([]byte, 1<<20-10)}, nil
}

// TestOutputOfCommandsIsBounded: a command runs only if there is room for its output.
func TestOutputOfCommandsIsBounded(t *testing.T) {
	n := newNode(t, func(c *server.Config) {
		c.Authenticator, c.Client.RuntimeServiceClient = named{}, printing{c.Client.RuntimeServiceClient}
	})
	n.run("web", "sleep infinity", isRunning)
	d := &unread{node: n, mayTake: make(chan struct{})}
	if held := d.fill("ann", "POST", "/run/default/web/app?cmd=yes"); held != 63 {
		t.Errorf("the output of %d commands is held for a user, want 63: each needs room for more than 1 MiB before it runs", held)
	}
	close(d.mayTake)
	d.asking.Wait()
	if code := d.ask("ann", "POST", "/run/default/web/app?cmd=yes"); code != http.StatusOK {
		t.Errorf("%d after the others were read, want 200", code)
	}
	d.asking.Wait()
}

// A deafWriter blocks until the test allows a write. It records the deadline of the first Write.
type deafWriter struct {
	*httptest.ResponseRecorder
	take     time.Duration
	begun    chan int
	mayTake  <-chan struct{}
	deadline time.Time
	once     sync.Once
}

func (d *deafWriter) SetWriteDeadline(t time.Time) error { d.deadline = t; return nil }

func (d *deafWriter) Write(b []byte) (int, error) {
	d.once.Do(func() {
		d.take = time.Until(d.deadline)
		d.begun <- 200
	})
	<-d.mayTake
	return d.ResponseRecorder.Write(b)
}

// TestLogsThatAreNotFollowedAreBounded checks that a log that a caller reads slowly counts as a followed log, but
// has the deadlines of any response.
func TestLogsThatAreNotFollowedAreBounded(t *testing.T) {
	f := newFollower(t)
	f.pod("a", "one")
	f.wait(func() bool { _, text := f.ask("GET", "/containerLogs/a/one/app"); return text == "hello\n" })
	mayTake := make(chan struct{})
	var running sync.WaitGroup
	read := func() (code int, text string, take time.Duration) {
		w := &deafWriter{ResponseRecorder: httptest.NewRecorder(), begun: make(chan int, 2), mayTake: mayTake}
		r := httptest.NewRequestWithContext(f.ctx, "GET", "/containerLogs/a/one/app", nil)
		ended := make(chan struct{})
		running.Go(func() {
			defer close(ended)
			f.handler.ServeHTTP(refusals{w}, r)
		})
		if code = <-w.begun; code != 200 {
			<-ended
		}
		return code, w.Body.String(), w.take
	}
	for i := range 320 {
		if code, text, take := read(); code != 200 || take <= 0 || take > 5*time.Minute {
			t.Fatalf("log %d: %d %q, to be taken within %v, want 200 and at most 5m", i, code, text, take)
		}
	}
	if code, text, _ := read(); code != 429 || !strings.Contains(text, "the limit of a pod is 320") {
		t.Errorf("one more log: %d %q, want 429 and the limit", code, text)
	}
	close(mayTake)
	running.Wait()
	f.want("GET", "/containerLogs/a/one/app", 200, "hello\n")
}

// refusals lets a deafWriter take the answers that are no logs.
type refusals struct{ *deafWriter }

func (w refusals) WriteHeader(code int) {
	w.once.Do(func() { w.begun <- code })
	w.ResponseRecorder.WriteHeader(code)
}

func (w refusals) Write(b []byte) (int, error) {
	if w.Code != 200 {
		return w.ResponseRecorder.Write(b)
	}
	return w.deafWriter.Write(b)
}
