package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
)

// rig implements the dependencies of a Stopper. It writes a transcript: each line has the seconds since the
// beginning and an event. The container IDs are their names.
type rig struct {
	*testing.T
	Stopper
	began time.Time

	mu         sync.Mutex
	transcript []entry
	instances  memory.Instances

	// stops, removes, sandboxes and hooks are how calls end that do not succeed at once, by
	// container or sandbox.
	stops, removes, sandboxes, hooks map[string]func(ctx context.Context, calls int) error
	calls                            map[string]int
	contexts                         []context.Context // of all calls
	list                             func(*runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error)
}

type entry struct {
	at   time.Duration
	line string
}

// bubble runs a test in virtual time. The runtime has five seconds to answer.
func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		none := map[string]func(context.Context, int) error{}
		r := &rig{T: t, began: time.Now(), stops: none, removes: none, sandboxes: none, hooks: none, calls: map[string]int{}}
		log := funcr.New(func(_, args string) { r.note("log %s", args) }, funcr.Options{})
		r.Stopper = Stopper{Config{Runtime: rigRuntime{r}, Sandboxes: rigSandboxes{r}, Hooks: rigHooks{r}, Timeout: 5 * time.Second, Observer: r, Events: r, Log: log}}
		test(r)
	})
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transcript = append(r.transcript, entry{time.Since(r.began), fmt.Sprintf(format, args...)})
}

// want compares the transcript without its log lines, sorted where containers stop at once.
func (r *rig) want(lines ...string) {
	r.Helper()
	r.compare(false, lines)
}

func (r *rig) wantSorted(lines ...string) {
	r.Helper()
	r.compare(true, lines)
}

func (r *rig) compare(sorted bool, want []string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, ctx := range r.contexts {
		if ctx.Err() == nil {
			r.Error("the context of a call was not cancelled")
		}
	}
	all := slices.DeleteFunc(slices.Clone(r.transcript), func(e entry) bool { return strings.HasPrefix(e.line, "log ") })
	if sorted {
		slices.SortStableFunc(all, func(a, b entry) int {
			if a.at != b.at {
				return int(a.at - b.at)
			}
			return strings.Compare(a.line, b.line)
		})
	}
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%v %s", e.at.Seconds(), e.line))
	}
	if !slices.Equal(got, want) {
		r.Errorf("transcript:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantLog compares the log lines.
func (r *rig) wantLog(lines ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var got []string
	for _, e := range r.transcript {
		if line, is := strings.CutPrefix(e.line, "log "); is {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, lines) {
		r.Errorf("log %q, want %q", got, lines)
	}
}

// answer ends a call as the test wants it.
func (r *rig) answer(ctx context.Context, ends map[string]func(context.Context, int) error, call, id string) error {
	r.mu.Lock()
	r.contexts = append(r.contexts, ctx)
	key := call + " " + id
	r.calls[key]++
	calls := r.calls[key]
	r.mu.Unlock()
	if end := ends[id]; end != nil {
		return end(ctx, calls)
	}
	return nil
}

type rigRuntime struct{ *rig }

func (r rigRuntime) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return nil, errors.New("the rig has hooks of its own")
}

func (r rigRuntime) StopPodSandbox(ctx context.Context, req *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	return nil, rigSandboxes(r).Stop(ctx, req.GetPodSandboxId())
}

func (r rigRuntime) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	r.note("stop %s %d", req.GetContainerId(), req.GetTimeout())
	return nil, r.answer(ctx, r.stops, "stop", req.GetContainerId())
}

func (r rigRuntime) RemoveContainer(ctx context.Context, req *runtimeapi.RemoveContainerRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	r.note("remove %s", req.GetContainerId())
	return nil, r.answer(ctx, r.removes, "remove", req.GetContainerId())
}

func (r rigRuntime) ListContainers(ctx context.Context, req *runtimeapi.ListContainersRequest, _ ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	if req.GetFilter().GetId() != "" { // after a failed handler; no container of these tests exits by itself
		return &runtimeapi.ListContainersResponse{}, nil
	}
	r.note("list")
	if end, ok := ctx.Deadline(); !ok {
		r.Error("the list has no deadline")
	} else {
		r.note("deadline %v", end.Sub(r.began).Seconds())
	}
	r.mu.Lock()
	r.contexts = append(r.contexts, ctx)
	r.mu.Unlock()
	all, err := r.list(req.GetFilter())
	return &runtimeapi.ListContainersResponse{Containers: all}, err
}

type rigSandboxes struct{ *rig }

func (r rigSandboxes) Stop(ctx context.Context, id string) error {
	r.note("stop sandbox %s", id)
	return r.answer(ctx, r.sandboxes, "sandbox", id)
}

type rigHooks struct{ *rig }

func (r rigHooks) Run(ctx context.Context, req handler.Request) (handler.Result, error) {
	r.note("hook %s", req.Container)
	return handler.Result{}, r.answer(ctx, r.hooks, "hook", req.Container)
}

func (r *rig) ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error) {
	r.note("stopped %s after %v, failed: %t", container, took.Seconds(), err != nil)
}

func (r *rig) PreStopEnded(pod *v1.Pod, container string, took time.Duration, err error) {
	r.note("hook of %s ended after %v, failed: %t", container, took.Seconds(), err != nil)
}

func (r *rig) Eventf(about k8sruntime.Object, _, reason, format string, args ...any) {
	r.note("event %s about %q: %s", reason, about.(*v1.ObjectReference).FieldPath, fmt.Sprintf(format, args...))
}

func (r *rig) Mark(id string, what memory.Mark) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instances.Mark(id, what)
}

func (r *rig) Unmark(id string, what memory.Mark) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instances.Unmark(id, what)
}

func (r *rig) Marked(id string, what memory.Mark) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.instances.Marked(id, what)
}

func (r *rig) Record(context.Context) {
	if !r.Marked("app", memory.PreStopCompleted) && !r.Marked("left", memory.PreStopCompleted) && !r.Marked("s0", memory.PreStopCompleted) {
		r.Error("it is recorded before the handler has its mark")
	}
	r.note("record")
}

// wantMarks compares the marks of an instance.
func (r *rig) wantMarks(id string, want memory.Mark) {
	r.Helper()
	for _, m := range []memory.Mark{memory.StopSignalled, memory.PreStopRun, memory.PreStopCompleted} {
		if got := r.Marked(id, m); got != (want&m != 0) {
			r.Errorf("mark %d of %s: %t, want %t", m, id, got, want&m != 0)
		}
	}
}

// The ways in which a call ends.
var (
	errBroken = status.Error(codes.Internal, "broken")
	errAway   = status.Error(codes.Unavailable, "unavailable")
	errGone   = status.Error(codes.NotFound, "no such container")
)

func fails(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

// hangs returns when its context ends.
func hangs(ctx context.Context, _ int) error {
	<-ctx.Done()
	return ctx.Err()
}

// takes returns after a time, or when its context ends.
func takes(d time.Duration) func(context.Context, int) error {
	return func(ctx context.Context, _ int) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// from lets calls return from the nth one on; earlier calls hang.
func from(n int, end func(context.Context, int) error) func(context.Context, int) error {
	return func(ctx context.Context, calls int) error {
		if calls < n {
			return hangs(ctx, calls)
		}
		return end(ctx, calls)
	}
}

type ends map[string]func(context.Context, int) error

// testPod has the containers app and b, and the sidecars s0 and s1. With hooks, they have preStop
// handlers.
func testPod(hooked ...string) *v1.Pod {
	pod := podtest.Pod("web", podtest.UID("u"), podtest.Namespace("ns"), podtest.InitContainer("s0", podtest.Sidecar), podtest.InitContainer("s1", podtest.Sidecar),
		podtest.Container("app"), podtest.Container("b"))
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if slices.Contains(hooked, list[i].Name) {
				list[i].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"drain"}}}}
			}
		}
	}
	return pod
}

func instance(name string, state runtime.ContainerState) runtime.ContainerStatus {
	return runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{Type: "test", ID: name}, State: state, SandboxID: "sb"}
}

// container is a container of the pod, which has its grace period from now on.
func (r *rig) container(pod *v1.Pod, name string, state runtime.ContainerState, grace time.Duration) Container {
	c := instance(name, state)
	k := Container{Pod: pod, Status: &c, Memory: r, Deadline: time.Now().Add(grace), Message: "why"}
	if pod != nil {
		if ref, found := actions.FindContainer(pod, name); found {
			k.Ref = &ref
		}
	}
	return k
}

// pod is a pod with running containers in the sandbox sb, which is ready.
func (r *rig) pod(pod *v1.Pod, grace time.Duration, names ...string) Pod {
	status := &runtime.PodStatus{UID: "u", Sandboxes: []runtime.SandboxStatus{{ID: "sb", State: runtime.SandboxReady}}}
	for _, name := range names {
		status.Containers = append(status.Containers, instance(name, runtime.ContainerRunning))
	}
	return Pod{Spec: pod, Status: status, Memory: r, Deadline: time.Now().Add(grace)}
}

// wantError fails unless err is want; a nil want is no error.
func (r *rig) wantError(err, want error) {
	r.Helper()
	if !errors.Is(err, want) || (err == nil) != (want == nil) {
		r.Errorf("error %v, want %v", err, want)
	}
}
