package critest

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// A node is a runtime in a bubble, with the clients of an agent.
type node struct {
	*testing.T
	*Runtime
	rt  runtimeapi.RuntimeServiceClient
	img runtimeapi.ImageServiceClient
}

// onBubble runs f on a node in virtual time. Unless the config sets Images, "app" is on the node.
func onBubble(t *testing.T, cfg Config, f func(n *node)) {
	t.Helper()
	if cfg.Images == nil {
		cfg.Images = []Image{{Name: "app"}}
	}
	synctest.Test(t, func(t *testing.T) {
		cfg.ServeUnknown = true // the tests name servers that no image contains
		r, conn := Start(t, cfg)
		f(&node{T: t, Runtime: r, rt: runtimeapi.NewRuntimeServiceClient(conn), img: runtimeapi.NewImageServiceClient(conn)})
	})
}

func (n *node) ok(err error) {
	n.Helper()
	if err != nil {
		n.Fatal(err)
	}
}

func (n *node) code(err error, want codes.Code) {
	n.Helper()
	if status.Code(err) != want {
		n.Fatalf("got %v, want %v", err, want)
	}
}

func (n *node) inject(f faults.Fault) faults.Injected {
	n.Helper()
	i, err := n.Inject(f)
	n.ok(err)
	return i
}

func podConfig(uid string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: uid},
		Labels:   map[string]string{labelUID: uid},
	}
}

func (n *node) trySandbox(ctx context.Context, uid string) (string, error) {
	resp, err := n.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: podConfig(uid)})
	return resp.GetPodSandboxId(), err
}

func (n *node) newSandbox(uid string) string {
	n.Helper()
	id, err := n.trySandbox(n.Context(), uid)
	n.ok(err)
	return id
}

func (n *node) tryContainer(ctx context.Context, sandbox, uid string, attempt uint32, cmd ...string) (string, error) {
	resp, err := n.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: podConfig(uid),
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: "app"},
			Command:  cmd,
			Labels:   map[string]string{labelUID: uid},
		},
	})
	return resp.GetContainerId(), err
}

func (n *node) newContainer(sandbox, uid string, cmd ...string) string {
	n.Helper()
	id, err := n.tryContainer(n.Context(), sandbox, uid, 0, cmd...)
	n.ok(err)
	return id
}

func (n *node) startIt(id string) error {
	_, err := n.rt.StartContainer(n.Context(), &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// runs creates a pod with one running container.
func (n *node) runs(uid string, cmd ...string) (sandbox, id string) {
	n.Helper()
	sandbox = n.newSandbox(uid)
	id = n.newContainer(sandbox, uid, cmd...)
	n.ok(n.startIt(id))
	return sandbox, id
}

func (n *node) stopIt(ctx context.Context, id string, timeout int64) error {
	_, err := n.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout})
	return err
}

func (n *node) inspect(id string) (*runtimeapi.ContainerStatus, error) {
	resp, err := n.rt.ContainerStatus(n.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return resp.GetStatus(), err
}

func (n *node) wantState(id string, want runtimeapi.ContainerState, code int32) {
	n.Helper()
	st, err := n.inspect(id)
	n.ok(err)
	if st.GetState() != want || st.GetExitCode() != code {
		n.Fatalf("%v with code %d (%s), want %v with %d", st.GetState(), st.GetExitCode(), st.GetReason(), want, code)
	}
}

func (n *node) sandboxes() []*runtimeapi.PodSandbox {
	n.Helper()
	resp, err := n.rt.ListPodSandbox(n.Context(), &runtimeapi.ListPodSandboxRequest{})
	n.ok(err)
	return resp.GetItems()
}

func (n *node) containers() []*runtimeapi.Container {
	n.Helper()
	resp, err := n.rt.ListContainers(n.Context(), &runtimeapi.ListContainersRequest{})
	n.ok(err)
	return resp.GetContainers()
}

func (n *node) address(id string) string {
	n.Helper()
	resp, err := n.rt.PodSandboxStatus(n.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id})
	n.ok(err)
	return resp.GetStatus().GetNetwork().GetIp()
}

// events opens the event stream. The returned function returns the events so far, and the error of the
// stream if it has ended.
func (n *node) events() func() ([]*runtimeapi.ContainerEventResponse, error) {
	n.Helper()
	ctx, cancel := context.WithCancel(n.Context())
	n.Cleanup(cancel)
	stream, err := n.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	n.ok(err)
	var mu sync.Mutex
	var got []*runtimeapi.ContainerEventResponse
	var end error
	go func() {
		for {
			e, err := stream.Recv()
			mu.Lock()
			if end = err; err == nil {
				got = append(got, e)
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	synctest.Wait()
	return func() ([]*runtimeapi.ContainerEventResponse, error) {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got), end
	}
}

// deaf ignores SIGTERM.
const deaf = "trap '' TERM; sleep 1000"

func script(s string) []string { return []string{"sh", "-c", s} }

// after returns the duration of f.
func after(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}
