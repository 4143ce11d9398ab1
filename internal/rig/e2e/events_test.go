package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// TestEvents compares critest with the events that runtimes send during a pod's life, and with the pod's status in each of
// them.
func TestEvents(t *testing.T) {
	for _, endpoint := range endpoints(t) {
		t.Run(endpoint, func(t *testing.T) {
			conn := must.Get(grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
			t.Cleanup(func() { _ = conn.Close() })
			got, want := podEvents(t, conn), podEvents(t, fakeLike(t, conn))
			if !slices.Equal(got, want) {
				t.Errorf("events of a pod's life:\n%q\ncritest:\n%q", got, want)
			}
		})
	}
}

// podEvents returns the events of a pod whose container exits, and whose sandbox is then stopped and removed.
func podEvents(t *testing.T, conn *grpc.ClientConn) []string {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	c := &caller{TB: t, notes: map[string]string{}, rt: runtimeapi.NewRuntimeServiceClient(conn), pod: &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: "events", Namespace: "e2e", Uid: fmt.Sprint("events-", time.Now().UnixNano())},
	}}
	stream := must.Get(c.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{}))(t)
	ended := make(chan struct{})
	go func() {
		defer cancel()
		defer close(ended)
		select {
		case <-time.After(500 * time.Millisecond): // the runtime has the call by now
			c.live(ctx)
			time.Sleep(time.Second) // for the last events
		case <-ctx.Done():
		}
	}()
	defer func() {
		cancel()
		<-ended
	}()
	var told []string
	for {
		e, err := stream.Recv()
		select {
		case <-ended:
			return told
		default:
		}
		switch {
		case status.Code(err) == codes.Unimplemented:
			t.Skip("this runtime has no events")
		case err != nil:
			t.Fatalf("after %q: %v", told, err)
		case e.GetPodSandboxStatus().GetMetadata().GetUid() != c.pod.GetMetadata().GetUid():
			continue
		}
		about := "container"
		if e.GetContainerId() == e.GetPodSandboxStatus().GetId() {
			about = "sandbox"
		}
		line := fmt.Sprintf("%s %v, sandbox %v", about, e.GetContainerEventType(), e.GetPodSandboxStatus().GetState())
		for _, s := range e.GetContainersStatuses() {
			line += fmt.Sprintf(", container %v %d", s.GetState(), s.GetExitCode())
		}
		told = append(told, line)
	}
}

// live runs the pod's life. A step that fails has no events.
func (c *caller) live(ctx context.Context) {
	resp, err := c.rt.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: c.pod})
	if err != nil {
		c.Error(err)
		return
	}
	c.sandbox = resp.GetPodSandboxId()
	id, err := c.create(0, nil, "sh", "-c", "sleep 1; exit 3")
	if err == nil {
		err = c.start(id)
	}
	if err != nil {
		c.Error(err)
	}
	time.Sleep(2 * time.Second)
	_, _ = c.rt.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: c.sandbox})
	time.Sleep(500 * time.Millisecond) // containerd reports the sandbox's end some time later
	_, _ = c.rt.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: c.sandbox})
}
