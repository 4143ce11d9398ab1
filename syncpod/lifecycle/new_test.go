package lifecycle

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

func TestNewNamesTheInvalidField(t *testing.T) {
	for field, c := range map[string]Config{
		"Config.Runtime": {}, "Config.Timeout": {Runtime: &calls{}, Timeout: -1}, "Config.Owner": {Runtime: &calls{}, Owner: cri.Owner{Name: "a b"}},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// calls is a runtime that records its calls.
type calls struct{ made []string }

func (c *calls) ExecSync(_ context.Context, req *runtimeapi.ExecSyncRequest, _ ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	c.made = append(c.made, "exec "+strings.Join(req.GetCmd(), " ")+" in "+req.GetContainerId())
	return &runtimeapi.ExecSyncResponse{}, nil
}

func (c *calls) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{}, nil
}

func (c *calls) StopContainer(_ context.Context, req *runtimeapi.StopContainerRequest, _ ...grpc.CallOption) (*runtimeapi.StopContainerResponse, error) {
	c.made = append(c.made, "stop "+req.GetContainerId()+" within "+(time.Duration(req.GetTimeout())*time.Second).String())
	return nil, nil
}

func (c *calls) RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error) {
	return nil, nil
}

func (c *calls) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest, _ ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error) {
	c.made = append(c.made, "stop sandbox "+req.GetPodSandboxId())
	return nil, nil
}

// A Stopper that has a runtime only runs the handler of the spec within the pod's grace period. KillContainer leaves the rest
// of the pod alone, and a ProcessMemory keeps a handler from running twice.
func TestStopperWithDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &calls{}
		s := must.Get(New(Config{Runtime: r}))(t)
		pod := &v1.Pod{Spec: v1.PodSpec{TerminationGracePeriodSeconds: new(int64(7)), Containers: []v1.Container{{
			Name: "app", Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"bye"}}}},
		}, {Name: "log"}}}}
		status := &runtime.PodStatus{Sandboxes: []runtime.SandboxStatus{{ID: "s0", State: runtime.SandboxReady}}, Containers: []runtime.ContainerStatus{
			{Name: "app", ID: runtime.ContainerID{ID: "a"}, SandboxID: "s0", State: runtime.ContainerRunning},
			{Name: "log", ID: runtime.ContainerID{ID: "l"}, SandboxID: "s0", State: runtime.ContainerExited},
		}}
		want := func(lines ...string) {
			t.Helper()
			if !slices.Equal(r.made, lines) {
				t.Errorf("calls %q, want %q", r.made, lines)
			}
			r.made = nil
		}
		marks := new(ProcessMemory)
		one := Container{Pod: pod, Status: status.Latest("app"), Memory: marks}
		must.Do(t, s.KillContainer(t.Context(), one))
		want("exec bye in a", "stop a within 7s")
		must.Do(t, s.KillPod(t.Context(), Pod{Spec: pod, Status: status, Memory: marks}))
		want("stop a within 7s", "stop sandbox s0")
		must.Do(t, s.KillPod(t.Context(), Pod{Spec: pod, Status: status}))
		want("exec bye in a", "stop a within 7s", "stop sandbox s0")
		if s.KillContainer(t.Context(), Container{}) == nil || s.KillPod(t.Context(), Pod{}) == nil {
			t.Error("a missing Status is not reported")
		}
	})
}
