package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	images "github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
)

// edge is one agent on one runtime.
type edge struct {
	t      *testing.T
	client *cri.Client
	owner  cri.Owner
	reader *podreader.Reader
	runner *run.Runner
}

// onEdges runs a test on each endpoint.
func onEdges(t *testing.T, f func(t *testing.T, e *edge)) {
	for _, endpoint := range endpoints(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(endpoint, "unix://"), "/", "-"), func(t *testing.T) {
			client := must.Get(cri.Dial(t.Context(), cri.Config{Endpoint: endpoint}))(t)
			t.Cleanup(func() { client.Close() })
			f(t, newEdge(t, client, fmt.Sprintf("e2e-%d", os.Getpid())))
		})
	}
}

func newEdge(t *testing.T, client *cri.Client, name string) *edge {
	t.Helper()
	e := &edge{t: t, client: client, owner: cri.Owner{Name: name}}
	e.reader = must.Get(podreader.New(podreader.Config{Runtime: client, RuntimeName: client.RuntimeName(), Owner: e.owner}))(t)
	e.runner = must.Get(run.New(run.Config{Runtime: client, Owner: e.owner, UnresolvedTimeout: 3 * time.Second}))(t)
	return e
}

func (e *edge) config(uid string) *runtimeapi.PodSandboxConfig {
	return &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "p-" + uid, Namespace: "e2e", Uid: uid},
		Labels:       map[string]string{runtime.LabelPodName: "p-" + uid, runtime.LabelPodNamespace: "e2e", runtime.LabelPodUID: uid},
		LogDirectory: e.t.TempDir(),
		Linux:        &runtimeapi.LinuxPodSandboxConfig{},
	}
}

// sandbox creates a pod's sandbox and removes it at the test's end. The first tries are cancelled after the given
// times.
func (e *edge) sandbox(config *runtimeapi.PodSandboxConfig, cutOff ...time.Duration) run.Created {
	e.t.Helper()
	for i := range 30 {
		ctx, cancel := context.WithCancel(e.t.Context())
		if i < len(cutOff) {
			ctx, cancel = context.WithTimeout(e.t.Context(), cutOff[i])
		}
		c, err := e.runner.Create(ctx, config, "")
		cancel()
		if err == nil {
			e.t.Cleanup(func() {
				if err := e.runner.Remove(context.Background(), c.ID); err != nil {
					e.t.Error(err)
				}
			})
			return c
		}
		e.t.Log(err)
		if i >= len(cutOff) {
			time.Sleep(200 * time.Millisecond)
		}
	}
	e.t.Fatal("no sandbox after 30 tries")
	return run.Created{}
}

func (e *edge) status(uid types.UID, prev *runtime.PodStatus) *runtime.PodStatus {
	e.t.Helper()
	return must.Get(e.reader.PodStatus(e.t.Context(), uid, prev))(e.t)
}

// S1: creations that are cut off at any moment end in one sandbox, and none of
// them in two.
func TestEdgeS1_CreationsCutOff(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		for _, after := range []time.Duration{1, 5, 10, 20, 30, 40, 50, 60} {
			after *= time.Millisecond
			config := e.config(fmt.Sprintf("cut-%v", after))
			e.sandbox(config, after, after)
			s := e.status(types.UID(config.Metadata.Uid), nil)
			ready := slices.DeleteFunc(s.Sandboxes, func(s runtime.SandboxStatus) bool { return s.State != runtime.SandboxReady })
			if len(ready) != 1 || len(s.IPs()) == 0 {
				t.Errorf("cut off after %v: ready sandboxes %+v", after, ready)
			}
		}
	})
}

func TestEdgeStatus(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		config := e.config("status")
		sb := e.sandbox(config)
		c := must.Get(e.client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sb.ID, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "c"},
			Image:    &runtimeapi.ImageSpec{Image: image, UserSpecifiedImage: image},
			Command:  []string{"/bin/busybox", "sh", "-c", "exit 3"},
			Labels:   e.owner.Mark(config.Labels),
			LogPath:  "c.log",
			Linux:    &runtimeapi.LinuxContainerConfig{},
		}}))(t)
		created := e.status("status", nil)
		if got := created.Latest("c"); got == nil || got.State != runtime.ContainerCreated || got.SandboxID != sb.ID || got.ID.ID != c.ContainerId || !got.StartedAt.IsZero() {
			t.Errorf("created: %+v, want state %v, sandbox %v, ID %v and no start time", got, runtime.ContainerCreated, sb.ID, c.ContainerId)
		}
		must.Get(e.client.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}))(t)
		exited := created
		for deadline := time.Now().Add(10 * time.Second); exited.Latest("c").State != runtime.ContainerExited && time.Now().Before(deadline); {
			time.Sleep(50 * time.Millisecond)
			exited = e.status("status", exited)
		}
		if got := exited.Latest("c"); got.ExitCode != 3 || got.Reason != "Error" || got.FinishedAt.IsZero() {
			t.Errorf("exited: %+v, want exit code 3, reason %q and a finish time", got, "Error")
		}
	})
}

// K2: the responses of a real runtime for unknown IDs.
func TestEdgeK2_UnknownIDs(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		_, status := e.client.ContainerStatus(t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: "unknown"})
		_, sandboxStatus := e.client.PodSandboxStatus(t.Context(), &runtimeapi.PodSandboxStatusRequest{PodSandboxId: "unknown"})
		for _, err := range []error{status, sandboxStatus} {
			if !errors.Is(cri.Classify(err), cri.ErrNotFound) {
				t.Errorf("%v is not of class %q", err, cri.ErrNotFound)
			}
		}
		_, stop := e.client.StopContainer(t.Context(), &runtimeapi.StopContainerRequest{ContainerId: "unknown"})
		_, remove := e.client.RemoveContainer(t.Context(), &runtimeapi.RemoveContainerRequest{ContainerId: "unknown"})
		for _, err := range []error{cri.IgnoreNotFound(stop), cri.IgnoreNotFound(remove), e.runner.Stop(t.Context(), "unknown"), e.runner.Remove(t.Context(), "unknown")} {
			if err != nil {
				t.Error(err)
			}
		}
	})
}

func TestEdgeTwoAgents(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		other := newEdge(t, e.client, e.owner.Name+"-other")
		e.sandbox(e.config("mine"))
		other.sandbox(other.config("theirs"))
		pods, err := e.reader.List(t.Context())
		if err != nil || len(pods) != 1 || pods[0].UID != "mine" {
			t.Errorf("sees %d pods (%v), want its own", len(pods), err)
		}
		if s := e.status("theirs", nil); len(s.Sandboxes) != 0 {
			t.Errorf("sees the other's sandboxes: %+v", s.Sandboxes)
		}
	})
}

func TestEdgeImages(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		m := must.Get(images.New(images.Config{Settings: images.Settings{Runtime: e.client}}))(t)
		img, err := m.EnsureImageExists(t.Context(), images.Request{Image: "localhost/busybox:e2e"})
		if err != nil || img.Pulled || img.ID == "" {
			t.Fatalf("%+v, %v, want an image that was present", img, err)
		}
		img.Release()
		var why *images.Error
		_, err = m.EnsureImageExists(t.Context(), images.Request{Image: "localhost:1/none:v1", PodUID: "u"})
		if !errors.As(err, &why) || why.Reason != images.ErrImagePull && why.Reason != images.ErrRegistryUnavailable || why.RetryAt.IsZero() {
			t.Errorf("a registry that is not there: %v", err)
		}
	})
}

// seen reports events of the pod "events". A runtime may keep events for the next stream, so there may be older events of
// other pods.
type seen chan struct{}

func (seen) StreamOpened()    {}
func (seen) StreamLost(error) {}
func (s seen) HandleEvent(e pleg.Event) {
	if e.PodUID == "events" && len(s) == 0 {
		s <- struct{}{}
	}
}

func TestEdgeEvents(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		events := make(seen, 1)
		stream := must.Get(pleg.NewEvents(pleg.EventsConfig{Runtime: e.client, Handler: events, Owner: e.owner}))(t)
		ended := make(chan error, 1)
		go func() { ended <- stream.Run(ctx) }()
		time.Sleep(200 * time.Millisecond)
		e.sandbox(e.config("events"))
		select {
		case <-events:
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		case err := <-ended: // containerd 1.6 has no stream, and returns an error
			if !errors.Is(err, cri.ErrUnimplemented) {
				t.Errorf("Run: %v", err)
			}
		}
	})
}
