package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	images "github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/sandbox/run"
)

// fakeNode returns an in-memory runtime, and a client of it.
func fakeNode(t *testing.T, c critest.Config) (*critest.Runtime, *cri.Client) {
	t.Helper()
	r := must.Get(critest.New(c))(t)
	t.Cleanup(func() { r.Close() })
	l := bufconn.Listen(1 << 16)
	go r.Serve(l)
	client := must.Get(cri.Dial(t.Context(), cri.Config{Dialer: func(ctx context.Context) (net.Conn, error) { return l.DialContext(ctx) }}))(t)
	t.Cleanup(func() { client.Close() })
	return r, client
}

// start starts a container with the calls that the documentation of package cri counts.
func (e *edge) start(m *images.Manager, sandboxID, name string, config *runtimeapi.PodSandboxConfig) {
	e.t.Helper()
	img := must.Get(m.EnsureImageExists(e.t.Context(), images.Request{Image: "app:v1"}))(e.t)
	defer img.Release()
	c := must.Get(e.client.CreateContainer(e.t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sandboxID, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: name},
		Image:    &runtimeapi.ImageSpec{Image: img.ID, UserSpecifiedImage: "app:v1"},
		Command:  []string{"sleep", "infinity"},
		Labels:   e.owner.Mark(config.Labels),
	}}))(e.t)
	must.Get(e.client.StartContainer(e.t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.ContainerId}))(e.t)
}

func newImages(t *testing.T, client *cri.Client) *images.Manager {
	t.Helper()
	return must.Get(images.New(images.Config{Settings: images.Settings{Runtime: client}}))(t)
}

// The numbers of calls to make a pod, in the documentation of package cri.
func TestNumberOfCallsOfANewPod(t *testing.T) {
	for model, want := range map[critest.Model]map[int]int{critest.Containerd2: {1: 8, 3: 16}, critest.CRIO: {1: 7, 3: 13}} {
		for containers, calls := range want {
			synctest.Test(t, func(t *testing.T) {
				r, client := fakeNode(t, critest.Config{Like: model, Images: []critest.Image{{Name: "app:v1"}}})
				e := newEdge(t, client, "agent")
				m, config := newImages(t, client), e.config("new")
				before := len(r.Journal())
				sb := e.sandbox(config)
				for i := range containers {
					e.start(m, sb.ID, fmt.Sprint("c", i), config)
				}
				if s := e.status("new", nil); len(s.Containers) != containers {
					t.Errorf("%d containers, want %v", len(s.Containers), containers)
				}
				if j := r.Journal().After(before); j.Count() != calls {
					t.Errorf("model %v, %d containers: %d calls, want %d\n%v", model, containers, j.Count(), calls, j)
				}
			})
		}
	}
}

// G1: while a container is created, a pass that removes images keeps its image. When neither a container nor a lease is
// left, the image is removed.
func TestG1_ImagesAreRemovedBesideACreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := fakeNode(t, critest.Config{Images: []critest.Image{{Name: "app:v1"}, {Name: "old:v1"}}})
		e, gate := newEdge(t, client, "agent"), &faults.Gate{}
		m, config := newImages(t, client), e.config("pod")
		must.Get(r.Inject(faults.Fault{Match: faults.Match{Method: critest.CreateContainer}, Hang: gate}))(t)
		sb := e.sandbox(config)
		var creating sync.WaitGroup
		creating.Go(func() { e.start(m, sb.ID, "c", config) })
		synctest.Wait()
		if removed := removeImages(t, client, m.Leases()); gate.Waiting() != 1 || !slices.Equal(removed, []string{"docker.io/library/old:v1"}) {
			t.Errorf("%d creations wait, removed %v", gate.Waiting(), removed)
		}
		gate.Open()
		creating.Wait()
		if removed := removeImages(t, client, m.Leases()); !slices.Equal(removed, []string{"docker.io/library/app:v1"}) {
			t.Errorf("when the lease had ended: removed %v", removed)
		}
		for _, c := range r.Journal().Of(critest.CreateContainer, critest.StartContainer) {
			if c.Err != nil {
				t.Error(c)
			}
		}
	})
}

// removeImages makes a pass that removes all images without a lease.
func removeImages(t *testing.T, client *cri.Client, l *images.Leases) (names []string) {
	t.Helper()
	list := must.Get(client.ListImages(t.Context(), &runtimeapi.ListImagesRequest{}))(t)
	for _, img := range list.GetImages() {
		removed, err := l.Remove(t.Context(), img, func(ctx context.Context) error {
			_, err := client.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: img.GetId()}})
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if removed {
			names = append(names, img.GetRepoTags()...)
		}
	}
	return names
}

// An agent that may adopt a kubelet's pods reads, stops and removes them. The objects of another agent, and the images of
// both, are not changed.
func TestAKubeletsPodIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := fakeNode(t, critest.Config{Images: []critest.Image{{Name: "app:v1"}}})
		other, m := newEdge(t, client, "other"), newImages(t, client)
		theirs := other.config("theirs")
		other.start(m, other.sandbox(theirs).ID, "c", theirs)
		config := other.config("kubelets")
		sb := must.Get(client.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: config}))(t)
		e := newEdge(t, client, "mine")
		if s := e.status("kubelets", nil); len(s.Sandboxes) != 0 {
			t.Errorf("seen without being asked to adopt: %+v", s)
		}
		e = ownedEdge(t, client, cri.Owner{Name: "mine", AdoptUnmarked: true})
		if s := e.status("kubelets", nil); s.ActiveSandbox() == nil || s.ActiveSandbox().ID != sb.PodSandboxId {
			t.Errorf("not adopted: %+v", s)
		}
		must.Do(t, errors.Join(e.runner.Stop(t.Context(), sb.PodSandboxId), e.runner.Remove(t.Context(), sb.PodSandboxId)))
		pods, err := e.reader.List(t.Context())
		if err != nil || len(pods) != 0 {
			t.Errorf("%d pods left, %v", len(pods), err)
		}
		s := other.status("theirs", nil)
		if s.ActiveSandbox() == nil || s.Latest("c").State != runtime.ContainerRunning || r.Journal().Count(critest.RemoveImage) != 0 {
			t.Errorf("the other agent's pod, or an image, was touched: %+v", s)
		}
	})
}

func ownedEdge(t *testing.T, client *cri.Client, o cri.Owner) *edge {
	t.Helper()
	e := newEdge(t, client, o.Name)
	e.owner = o
	e.reader = must.Get(reader.New(reader.Config{Runtime: client, RuntimeName: client.RuntimeName(), Owner: o}))(t)
	e.runner = must.Get(run.New(run.Config{Runtime: client, Owner: o}))(t)
	return e
}

// No log line contains the contents of a pod's config, which may be secret.
func TestLogLinesHoldNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, client := fakeNode(t, critest.Config{})
		var mu sync.Mutex
		var lines []string
		log := funcr.New(func(prefix, args string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, prefix+args)
		}, funcr.Options{Verbosity: 10})
		runner := must.Get(run.New(run.Config{Runtime: client, Log: log}))(t)
		events := must.Get(pleg.NewEvents(pleg.EventsConfig{Runtime: client, Handler: make(seen, 1), Log: log}))(t)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = events.Run(ctx) }) // ends with ctx
		synctest.Wait()                            // until the stream that will be lost is open
		config := newEdge(t, client, cri.DefaultOwner).config("secretive")
		config.Annotations = map[string]string{"token": "hunter2"}
		config.Labels["token"] = "hunter2"
		config.Linux.Sysctls = map[string]string{"kernel.domainname": "hunter2"}
		must.Get(r.Inject(faults.Fault{Match: faults.Match{Method: critest.RunPodSandbox}, When: faults.After, Err: status.Error(codes.DeadlineExceeded, "late")}))(t)
		created, err := runner.Create(t.Context(), config, "")
		if err != nil || !created.Adopted {
			t.Errorf("%+v, %v; want one that is adopted", created, err)
		}
		r.DisconnectEvents(status.Error(codes.Unavailable, "slow"))
		time.Sleep(time.Second)
		must.Do(t, runner.Remove(t.Context(), created.ID))
		cancel()
		running.Wait()
		all := strings.Join(lines, "\n")
		if !strings.Contains(all, "adopt") || !strings.Contains(all, "stream lost") || strings.Contains(all, "hunter2") {
			t.Errorf("log lines:\n%s", all)
		}
	})
}
