package critest

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// lastWord is an agent that writes a file, reports a pod and calls the runtime each second, and once more when its ctx
// has ended, as the goroutines of an agent may.
func lastWord(t *testing.T, root string, pod *v1.Pod) func(context.Context, *AgentRun) error {
	return func(ctx context.Context, a *AgentRun) error {
		rt := runtimeapi.NewRuntimeServiceClient(a.Conn)
		act := func(ctx context.Context, word string) {
			for _, dir := range []string{"state", podsDir} {
				if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
					t.Error(err)
				}
				if err := os.WriteFile(filepath.Join(root, dir, "word"), []byte(word), 0o600); err != nil {
					t.Error(err)
				}
			}
			_ = a.Report(ctx, pod, v1.PodStatus{Message: word})              // the test compares what was reported
			_, _ = rt.Version(ctx, &runtimeapi.VersionRequest{Version: "1"}) // the test counts the calls
		}
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-tick.C:
				act(ctx, "alive")
			case <-ctx.Done():
				tick.Stop()
				act(context.WithoutCancel(ctx), "last")
				if err := os.WriteFile(filepath.Join(root, "new"), nil, 0o600); err != nil {
					t.Error(err)
				}
				return nil
			}
		}
	}
}

func word(t *testing.T, n *Node, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Root, dir, "word"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A killed agent leaves the files that it had when it was killed, reports nothing more and makes no call. A stopped one does
// all three.
func TestNodeKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(t, Config{})
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}
		for range 2 { // the second run follows a kill
			n.Start(lastWord(t, n.Root, pod))
			time.Sleep(90*time.Second + time.Second/2) // between two writes
			calls := len(n.Journal())
			n.Kill()
			if got := word(t, n, "state"); got != "alive" {
				t.Errorf("a killed agent has written %q, want %q", got, "alive")
			}
			if got := word(t, n, podsDir); got != "last" {
				t.Errorf("the file of a volume is restored to %q, want %q", got, "last")
			}
			if _, err := os.Stat(filepath.Join(n.Root, "new")); !os.IsNotExist(err) {
				t.Errorf("a killed agent has created a file: %v", err)
			}
			if got := n.Status("p").Message; got != "alive" {
				t.Errorf("a killed agent has reported %q, want %q", got, "alive")
			}
			if got := len(n.Journal()); got != calls {
				t.Errorf("a killed agent has made %d calls", got-calls)
			}
		}
		n.Start(lastWord(t, n.Root, pod))
		time.Sleep(90*time.Second + time.Second/2) // between two writes
		n.Stop()
		if got := n.Status("p").Message + word(t, n, "state"); got != "lastlast" {
			t.Errorf("a stopped agent has reported and written %q, want %q", got, "lastlast")
		}
	})
}

// Kill ends an agent between two calls: the first has its effect, and the agent gets no response.
func TestKillAfterACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(t, Config{})
		killed := make(chan struct{})
		n.CrashAfter(1, func() { n.Kill(); close(killed) })
		var answered error
		n.Start(func(ctx context.Context, a *AgentRun) error {
			_, answered = runtimeapi.NewRuntimeServiceClient(a.Conn).RunPodSandbox(context.WithoutCancel(ctx), &runtimeapi.RunPodSandboxRequest{Config: podConfig("p")})
			<-ctx.Done()
			return nil
		})
		<-killed
		n.mu.Lock()
		defer n.mu.Unlock()
		if answered == nil || len(n.sandboxes) != 1 {
			t.Errorf("the dead agent got %v, and there are %d sandboxes, want an error and %d", answered, len(n.sandboxes), 1)
		}
	})
}

// A killed agent opens no event stream and receives no event, and its end ends its event streams.
func TestKilledAgentReceivesNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(t, Config{})
		a := n.NewAgentRun(n.Root)
		stream, err := runtimeapi.NewRuntimeServiceClient(a.Conn).GetContainerEvents(context.Background(), &runtimeapi.GetEventsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		received := make(chan error, 1)
		a.Go(func(context.Context) {
			_, err := stream.Recv()
			received <- err
		})
		synctest.Wait()
		close(a.killed)
		if _, err := runtimeapi.NewRuntimeServiceClient(n.Direct()).RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: podConfig("p")}); err != nil {
			t.Fatal(err)
		}
		opened := make(chan struct{})
		streams := len(n.Journal())
		a.Go(func(context.Context) {
			_, _ = runtimeapi.NewRuntimeServiceClient(a.Conn).GetContainerEvents(context.Background(), &runtimeapi.GetEventsRequest{})
			close(opened)
		})
		synctest.Wait()
		if more := n.Journal()[streams:]; len(more) != 0 {
			t.Errorf("a killed agent has made %v", more)
		}
		if len(received) != 0 {
			t.Errorf("a killed agent has received an event or the error %v", <-received)
		}
		a.Stop()
		<-opened
		if err := <-received; err == nil {
			t.Error("a killed agent has received an event")
		}
	})
}

// An apiServer records the paths of requests, which it answers after a second.
type apiServer struct{ paths []string }

func (s *apiServer) RoundTrip(req *http.Request) (*http.Response, error) {
	s.paths = append(s.paths, req.URL.Path)
	time.Sleep(time.Second)
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// A killed agent sends no request, and gets no response to one in flight, until its ctx ends, and afterwards neither.
func TestKilledAgentSendsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNode(t, Config{})
		a, server := n.NewAgentRun(n.Root), &apiServer{}
		send := func(path string) error {
			req, err := http.NewRequestWithContext(context.Background(), http.MethodPatch, "http://api"+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			response, err := a.Transport(server).RoundTrip(req)
			if err == nil {
				response.Body.Close()
			}
			return err
		}
		if err := send("/alive"); err != nil {
			t.Error(err)
		}
		failed := make(chan error, 2)
		a.Go(func(context.Context) { failed <- send("/in-flight") })
		synctest.Wait()
		close(a.killed)
		a.Go(func(context.Context) { failed <- send("/killed") })
		time.Sleep(time.Minute)
		if len(failed) != 0 {
			t.Errorf("a killed agent has got the response %v before its end", <-failed)
		}
		a.Stop()
		if first, second, third := <-failed, <-failed, send("/ended"); first == nil || second == nil || third == nil {
			t.Errorf("the requests of a killed agent end with %v, %v and %v, want errors", first, second, third)
		}
		if want := []string{"/alive", "/in-flight"}; !slices.Equal(server.paths, want) {
			t.Errorf("the server got %q, want %q", server.paths, want)
		}
	})
}

// A failing is a testing.T that records errors.
type failing struct {
	*testing.T
	errors []any
}

func (f *failing) Error(args ...any) { f.errors = append(f.errors, args...) }

// NoDoubleRuns finds processes of one container that overlap, and a second one of a container that may run only once.
func TestNodeNoDoubleRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{T: t}
		n := NewNode(f, Config{})
		n.reported(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "once"}, Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever, Containers: []v1.Container{{Name: "app"}}}}, v1.PodStatus{})
		now := time.Now()
		n.processes = []*Process{
			{PodUID: "p", Container: "app", Started: now, Ended: now.Add(time.Second)},
			{PodUID: "p", Container: "app", Started: now.Add(time.Second)},
			{PodUID: "p", Container: "other", Started: now},
			{PodUID: "q", Container: "app", Started: now},
		}
		if n.NoDoubleRuns(); len(f.errors) != 0 {
			t.Errorf("processes one after the other: %v", f.errors)
		}
		for want, more := range map[string]*Process{
			"app of pod p ran twice at a time": {PodUID: "p", Container: "app", Started: now.Add(time.Minute)},
			"app of pod once may run once":     {PodUID: "once", Container: "app", Started: now.Add(time.Minute)},
		} {
			f.errors = nil
			before := n.processes
			n.processes = append(n.processes[:len(before):len(before)], &Process{PodUID: "once", Container: "app", Started: now, Ended: now.Add(time.Second)}, more)
			if n.NoDoubleRuns(); len(f.errors) != 1 || !strings.Contains(f.errors[0].(string), want) {
				t.Errorf("it says %v, want %q", f.errors, want)
			}
			n.processes = before
		}
	})
}

// An agent that ends by itself fails the test.
func TestNodeAgentEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &failing{T: t}
		n := NewNode(f, Config{})
		n.Start(func(context.Context, *AgentRun) error { return os.ErrClosed })
		synctest.Wait()
		if n.Stop(); len(f.errors) != 1 || !strings.Contains(f.errors[0].(string), os.ErrClosed.Error()) {
			t.Errorf("it says %v, want %v", f.errors, os.ErrClosed)
		}
	})
}
