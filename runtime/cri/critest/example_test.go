package critest_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// agent is a minimal agent for the examples: it runs a pod of one container.
type agent struct {
	rt  runtimeapi.RuntimeServiceClient
	pod *runtimeapi.PodSandboxConfig
}

func newAgent(rt *critest.Runtime) (agent, func() error, error) {
	conn, err := rt.Dial()
	if err != nil {
		return agent{}, nil, err
	}
	return agent{
		rt:  runtimeapi.NewRuntimeServiceClient(conn),
		pod: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "1"}},
	}, conn.Close, nil
}

func (a agent) sandbox(ctx context.Context) (string, error) {
	resp, err := a.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: a.pod})
	return resp.GetPodSandboxId(), err
}

func (a agent) run(ctx context.Context, sandbox, script string) (string, error) {
	resp, err := a.rt.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox, SandboxConfig: a.pod,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
			Image:    &runtimeapi.ImageSpec{Image: "app"},
			Command:  []string{"sh", "-c", script},
		},
	})
	if err != nil {
		return "", err
	}
	_, err = a.rt.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: resp.GetContainerId()})
	return resp.GetContainerId(), err
}

// The runtime replaces containerd in a program that demonstrates an agent.
func Example() {
	rt, err := critest.New(critest.Config{Images: []critest.Image{{Name: "app"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	a, hangUp, err := newAgent(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hangUp()

	ctx := context.Background()
	sandbox, _ := a.sandbox(ctx)
	id, _ := a.run(ctx, sandbox, "trap 'exit 7' TERM; touch /ready; sleep infinity & wait")
	for {
		probe, _ := a.rt.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: []string{"test", "-e", "/ready"}})
		if probe.GetExitCode() == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	a.rt.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: 30})
	st, _ := a.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	fmt.Println(st.GetStatus().GetState(), st.GetStatus().GetExitCode())
	for _, subject := range rt.Journal().Pod("1").Changes().Where(func(c critest.Call) bool { return c.Method != critest.ExecSync }).Sequence() {
		fmt.Println(subject)
	}
	// Output:
	// CONTAINER_EXITED 7
	// RunPodSandbox default/web attempt 0
	// CreateContainer default/web app attempt 0
	// StartContainer default/web app attempt 0
	// StopContainer default/web app attempt 0
}

// The call has its effect but the response is lost. The agent must inspect the runtime, because a
// second request fails.
func ExampleRuntime_Inject() {
	rt, err := critest.New(critest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	a, hangUp, err := newAgent(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hangUp()

	_, err = rt.Inject(faults.Fault{
		Match: faults.Match{Method: critest.RunPodSandbox, PodUID: "1"},
		When:  faults.After,
		Err:   status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	_, first := a.sandbox(ctx)
	_, again := a.sandbox(ctx)
	list, _ := a.rt.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	fmt.Println(status.Code(first), status.Code(again), len(list.GetItems()))
	// Output: DeadlineExceeded FailedPrecondition 1
}

// Each restart has another effect on the running objects.
func ExampleRuntime_Restart() {
	rt, err := critest.New(critest.Config{Images: []critest.Image{{Name: "app"}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rt.Close()
	a, hangUp, err := newAgent(rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hangUp()

	ctx := context.Background()
	sandbox, _ := a.sandbox(ctx)
	id, _ := a.run(ctx, sandbox, "sleep infinity")
	if err := rt.Restart(faults.Restart{Sandboxes: faults.EffectStopped, Containers: faults.EffectUnknown}); err != nil {
		fmt.Println(err)
		return
	}
	st, _ := a.rt.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	sb, _ := a.rt.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: sandbox})
	fmt.Println(st.GetStatus().GetState(), sb.GetStatus().GetState())
	// Output: CONTAINER_UNKNOWN SANDBOX_NOTREADY
}
