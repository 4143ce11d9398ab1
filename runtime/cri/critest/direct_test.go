package critest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// onDirect runs f on a node whose agent uses a direct connection.
func onDirect(t *testing.T, cfg Config, f func(n *node)) {
	t.Helper()
	cfg.Images = []Image{{Name: "app"}}
	synctest.Test(t, func(t *testing.T) {
		cfg.ServeUnknown = true
		r, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		n := &node{T: t, Runtime: r, rt: runtimeapi.NewRuntimeServiceClient(r.Direct()), img: runtimeapi.NewImageServiceClient(r.Direct())}
		t.Cleanup(func() { n.ok(r.Close()) })
		f(n)
	})
}

// A pod runs over a direct connection. It has events, and the journal has its calls.
func TestDirect(t *testing.T) {
	onDirect(t, Config{}, func(n *node) {
		events := n.events()
		sandbox, _ := n.runs("server", "nginx")
		conn, err := n.DialPod(n.Context(), "tcp", n.address(sandbox)+":80") // a server is ready when the call returns
		n.ok(err)
		n.ok(conn.Close())
		_, id := n.runs("uid", script("sleep 5; exit 3")...)
		time.Sleep(time.Minute)
		n.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED, 3)
		if got, err := events(); eventsOf(got, id) != "CSX" || err != nil {
			n.Errorf("the events are %q, %v, want %q", eventsOf(got, id), err, "CSX")
		}
		if calls := n.Journal().Of(StartContainer).Pod("uid"); len(calls) != 1 || calls[0].ContainerID != id {
			n.Errorf("the journal has %v, want the start of the container", calls)
		}
		if list, err := n.img.ListImages(n.Context(), &runtimeapi.ListImagesRequest{}); err != nil || len(list.Images) != 1 {
			n.Errorf("the images are %v, %v, want one", list, err)
		}
		_, err = n.inspect("none")
		n.code(err, codes.NotFound)
	})
}

// Responses and requests belong to the caller, as with gRPC.
func TestDirectCopies(t *testing.T) {
	onDirect(t, Config{}, func(n *node) {
		config := podConfig("uid")
		_, err := n.rt.RunPodSandbox(n.Context(), &runtimeapi.RunPodSandboxRequest{Config: config})
		n.ok(err)
		config.Metadata.Name = "changed"
		n.sandboxes()[0].Metadata.Name = "changed"
		if name := n.sandboxes()[0].Metadata.Name; name != "web" {
			n.Errorf("the sandbox is called %q, want %q", name, "web")
		}
	})
}

// A call returns when its context ends, even if the runtime ignores the end, and when the runtime restarts.
func TestDirectEnds(t *testing.T) {
	onDirect(t, Config{}, func(n *node) {
		n.inject(faults.Fault{Match: faults.Match{Method: Status}, Delay: time.Hour, IgnoreCancel: true})
		ctx, cancel := context.WithTimeout(n.Context(), time.Second)
		defer cancel()
		var err error
		if d := after(func() { _, err = n.rt.Status(ctx, &runtimeapi.StatusRequest{}) }); d != time.Second {
			n.Errorf("the call took %v, want %v", d, time.Second)
		}
		n.code(err, codes.DeadlineExceeded)
		_, err = n.rt.Status(ctx, &runtimeapi.StatusRequest{})
		n.code(err, codes.DeadlineExceeded)

		events := n.events()
		n.ok(n.Restart(faults.Restart{Down: time.Second}))
		_, err = n.inspect("any")
		n.code(err, codes.Unavailable)
		_, err = events()
		n.code(err, codes.Unavailable)
	})
}

// A stream ends with its context. After Close, calls fail.
func TestDirectStreamEnds(t *testing.T) {
	onDirect(t, Config{}, func(n *node) {
		ctx, cancel := context.WithCancel(n.Context())
		stream, err := n.rt.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
		n.ok(err)
		_, err = stream.Header()
		n.ok(err)
		cancel()
		_, err = stream.Recv()
		n.code(err, codes.Canceled)
		_, err = n.rt.StreamContainers(n.Context(), &runtimeapi.StreamContainersRequest{})
		n.ok(err)

		n.ok(n.Close())
		synctest.Wait()
		_, err = n.inspect("any")
		n.code(err, codes.Unavailable)
		_, err = n.rt.GetContainerEvents(n.Context(), &runtimeapi.GetEventsRequest{})
		n.code(err, codes.Unavailable)
	})
}
