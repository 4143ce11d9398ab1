package lifecycle_test

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/memory/keeper"
)

// client prints its calls. It embeds the interface, so that it needs only the methods that are called.
type client struct{ lifecycle.Runtime }

func (client) StopContainer(_ context.Context, in *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	fmt.Println("stop", in.GetContainerId())
	return &runtimeapi.StopContainerResponse{}, nil
}

// A container is stopped because its definition has changed; the pod keeps running.
func ExampleStopper_Clear() {
	stopper, err := lifecycle.New(lifecycle.Config{Runtime: client{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	records, err := keeper.New(keeper.Config{}) // with a directory, deadlines outlive the agent
	if err != nil {
		fmt.Println(err)
		return
	}
	grace, now := int64(5), time.Now()
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec:       v1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []v1.Container{{Name: "app", Image: "nginx:1.30"}}},
	}
	status := &runtime.PodStatus{
		UID: "u1", Sandboxes: []runtime.SandboxStatus{{ID: "s0", State: runtime.SandboxReady, CreatedAt: now}},
		Containers: []runtime.ContainerStatus{{
			ID: runtime.ContainerID{Type: "containerd", ID: "c0"}, Name: "app", SandboxID: "s0", State: runtime.ContainerRunning, CreatedAt: now, SpecHash: 1,
		}},
	}
	plan := actions.Compute(actions.Input{Pod: pod, Status: status})
	failed := stopper.Clear(context.Background(), lifecycle.Clearing{Pod: pod, Status: status, Plan: plan, Memory: records.Pod("u1"), IPs: status.IPs()})
	fmt.Println(len(plan.Kill), len(failed), "then start", plan.Start[0].Container)
	// Output:
	// stop c0
	// 1 0 then start container "app"
}
