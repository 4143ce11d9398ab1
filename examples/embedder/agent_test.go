package embedder

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/sandbox"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/start"
	"github.com/podsync/podsync/syncpod/podspec"
)

// An own is an agent of the embedder: it decides with Decide, and carries out the parts of a plan that it needs.
type own struct {
	client  *cri.Client
	starter *start.Starter
	logs    string
	box     start.Sandbox
}

func newOwn(t *testing.T, client *cri.Client) *own {
	t.Helper()
	images, err := image.New(image.Config{Settings: image.Settings{Runtime: client}})
	if err != nil {
		t.Fatal(err)
	}
	starter, err := start.NewStarter(start.StarterConfig{Images: images, Runtime: client, RuntimeName: "critest", Node: container.Node{MemoryBytes: 1 << 30}})
	if err != nil {
		t.Fatal(err)
	}
	return &own{client: client, starter: starter, logs: t.TempDir()}
}

// sync takes one step, and reports whether nothing was left to do.
func (o *own) sync(ctx context.Context, pod *v1.Pod) (done bool, err error) {
	plan, err := Decide(ctx, o.client, pod)
	if err != nil || plan.NoOp() {
		return err == nil, err
	}
	if plan.Sandbox.Create {
		if o.box.Config, err = sandbox.GeneratePodSandboxConfig(sandbox.Input{Pod: pod, LogsRoot: o.logs, Labels: cri.Owner{}.Mark(nil)}); err != nil {
			return false, err
		}
		made, err := o.client.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: o.box.Config})
		if err != nil {
			return false, err
		}
		o.box.ID = made.GetPodSandboxId()
	}
	return false, Start(ctx, o.starter, pod, o.box, plan.Start)
}

func web() *v1.Pod {
	return podspec.Default(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "8c1f"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "app", Image: "app:v1", ImagePullPolicy: v1.PullIfNotPresent}}},
	})
}

// Tasks 1, 9 and 10: an agent of one's own decides from the answers of its client, starts containers with the pipeline, and is
// tested on the runtime in memory, with a fault, in virtual time.
func TestAnAgentOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt, conn := critest.Start(t, critest.Config{Images: []critest.Image{{Name: "app:v1"}}})
		if _, err := rt.Inject(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Err: grpcstatus.Error(codes.Internal, "not now"), Times: 2}); err != nil {
			t.Fatal(err)
		}
		o, began := newOwn(t, cri.NewClient(conn)), time.Now()
		var refused int
		for range 10 {
			done, err := o.sync(t.Context(), web())
			if done {
				break
			}
			if errors.Is(err, start.ErrCreateContainer) {
				refused++
				time.Sleep(time.Minute) // a minute of virtual time
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); refused != 2 || took < 2*time.Minute {
			t.Errorf("it runs after %d failures and %v", refused, took)
		}
	})
}

// mine is a Syncer of one's own.
type mine struct {
	mu    sync.Mutex
	calls []string
}

func (m *mine) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, fmt.Sprintf(format, args...))
}

func (m *mine) SyncPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) (podworkers.Result, error) {
	m.note("run %s", w.UID)
	return podworkers.Result{}, nil
}

func (m *mine) SyncTerminatingPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	m.note("stop %s within %ds", w.UID, *w.GracePeriodSeconds)
	return nil
}

func (m *mine) SyncTerminatingRuntimePod(context.Context, podworkers.Work, *runtime.PodStatus) error {
	return nil
}

func (m *mine) SyncTerminatedPod(_ context.Context, w podworkers.Work, _ *runtime.PodStatus) error {
	m.note("report %s", w.UID)
	return nil
}

func (m *mine) RemovePod(context.Context, podworkers.Work, *runtime.PodStatus) error { return nil }

// Task 7: the pod workers of a kubelet with a Syncer of one's own.
func TestPodWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mine{}
		workers, err := podworkers.New(podworkers.Config{Syncer: m, RetryInitial: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- workers.Run(ctx) }()
		for _, u := range []podworkers.Update{{Type: podworkers.Create, Pod: web()}, {Type: podworkers.Kill, Pod: web()}} {
			if err := workers.UpdatePod(u); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		stop()
		<-ended
		if got := fmt.Sprint(m.calls); got != "[run 8c1f stop 8c1f within 30s report 8c1f]" {
			t.Error(got)
		}
	})
}

// recorded is a wrapper of a gRPC connection that counts calls.
type recorded struct {
	grpc.ClientConnInterface
	calls int
}

func (r *recorded) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	r.calls++
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// local is a runtime of one's own in the same process. It has only the calls that an agent needs, and no gRPC.
type local struct {
	runtimeapi.RuntimeServiceClient
	runtimeapi.ImageServiceClient
}

func (local) ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error) {
	return &runtimeapi.ListPodSandboxResponse{}, nil
}

func (local) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}

// Task 11: a CRI client of one's own: a wrapper of a connection, and one without gRPC.
func TestClients(t *testing.T) {
	_, conn := critest.Start(t, critest.Config{})
	wrapped := &recorded{ClientConnInterface: conn}
	for name, client := range map[string]*cri.Client{"wrapper": cri.NewClient(wrapped), "no gRPC": cri.New(local{}, local{})} {
		if plan, err := Decide(t.Context(), client, web()); err != nil || !plan.Sandbox.Create || plan.Start[0].Container.Kind != actions.RegularContainer {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
	}
	if wrapped.calls == 0 {
		t.Error("the wrapper is not called")
	}
}
