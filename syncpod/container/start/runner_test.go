package start_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/start"
)

// node answers as its fields say, and notes the requests.
type node struct {
	create   []error // one for each request; none left means success
	startErr error
	listed   []*runtimeapi.Container
	requests int
	disposed []string
	given    []uint32
	persists bool
	refused  int
}

func (n *node) CreateContainer(context.Context, *runtimeapi.CreateContainerRequest, ...grpc.CallOption) (*runtimeapi.CreateContainerResponse, error) {
	n.requests++
	if len(n.create) == 0 {
		return &runtimeapi.CreateContainerResponse{ContainerId: "new"}, nil
	}
	err := n.create[0]
	n.create = n.create[1:]
	return &runtimeapi.CreateContainerResponse{}, err
}

func (n *node) StartContainer(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
	return &runtimeapi.StartContainerResponse{}, n.startErr
}

func (n *node) ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error) {
	return &runtimeapi.ListContainersResponse{Containers: n.listed}, nil
}

func (n *node) Dispose(_ context.Context, id string) error {
	n.disposed, n.listed = append(n.disposed, id), nil
	return nil
}

func (n *node) Used(_ context.Context, _ string, attempt uint32, persist bool) {
	n.given, n.persists = append(n.given, attempt), persist
}

func (n *node) NameReserved(string) bool {
	n.refused++
	return n.refused >= start.NameReservedRetries
}

func (n *node) runner(t *testing.T) *start.Runner {
	t.Helper()
	return must.Get(start.New(start.Config{Runtime: n, Disposer: n}))(t)
}

var labels = cri.Owner{}.Mark(map[string]string{runtime.LabelPodUID: "u1", runtime.LabelContainerName: "app"})

func (n *node) request() start.Request {
	return start.Request{SandboxID: "s1", Attempts: n, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 2}, Labels: labels, Annotations: map[string]string{runtime.AnnotationHash: "h"},
	}}
}

func holder(change func(*runtimeapi.Container)) []*runtimeapi.Container {
	c := &runtimeapi.Container{Id: "old", PodSandboxId: "s1", Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: 2}, Labels: labels, Annotations: map[string]string{runtime.AnnotationHash: "h"}}
	change(c)
	return []*runtimeapi.Container{c}
}

var lost = status.Error(codes.DeadlineExceeded, "the answer is lost")

// The container that has the name is adopted only if it is the requested one and has not been started.
func TestHolderOfTheName(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*runtimeapi.Container)
		adopts bool
	}{
		"the requested one":   {func(*runtimeapi.Container) {}, true},
		"of another sandbox":  {func(c *runtimeapi.Container) { c.PodSandboxId = "s0" }, false},
		"of another spec":     {func(c *runtimeapi.Container) { c.Annotations = nil }, false},
		"already started":     {func(c *runtimeapi.Container) { c.State = runtimeapi.ContainerState_CONTAINER_RUNNING }, false},
		"of unknown state":    {func(c *runtimeapi.Container) { c.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN }, false},
		"with another number": {func(c *runtimeapi.Container) { c.Metadata.Attempt = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{create: []error{lost}, listed: holder(tt.change)}
			id, err := n.runner(t).Create(t.Context(), n.request())
			switch {
			case tt.adopts && (id != "old" || err != nil || len(n.disposed) > 0):
				t.Errorf("%q, %v, removed %q: it should be adopted", id, err, n.disposed)
			case !tt.adopts && name != "with another number" && (id != "new" || len(n.disposed) != 1 || n.requests != 2):
				t.Errorf("%q, %v, removed %q, %d requests: it should be removed, and the request repeated", id, err, n.disposed, n.requests)
			case name == "with another number" && (id != "" || !errors.Is(err, cri.ErrDeadline) || len(n.disposed) > 0):
				t.Errorf("%q, %v, removed %q: a container of another attempt has another name", id, err, n.disposed)
			}
		})
	}
}

// A name that stays reserved although no container is listed costs its attempt.
func TestReservedNameIsGivenUp(t *testing.T) {
	n := &node{}
	for range start.NameReservedRetries {
		n.create = []error{status.Error(codes.Unknown, `failed to reserve container name "app": name "app" is reserved for "x"`)}
		if id, err := n.runner(t).Create(t.Context(), n.request()); err == nil {
			t.Fatalf("created %q", id)
		}
	}
	if len(n.given) != 1 || n.given[0] != 2 || n.persists {
		t.Errorf("given up: %v, persisted %t; want attempt 2, once", n.given, n.persists)
	}
}

// A caller that has gone does not adopt, and the next agent does not use the number again.
func TestCallerHasGone(t *testing.T) {
	n := &node{create: []error{lost}, listed: holder(func(*runtimeapi.Container) {})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if id, err := n.runner(t).Create(ctx, n.request()); err == nil {
		t.Errorf("adopted %q", id)
	}
	if len(n.disposed) != 1 || len(n.given) != 1 || !n.persists {
		t.Errorf("removed %q, given up %v, persisted %t", n.disposed, n.given, n.persists)
	}
}

// A start without an answer has succeeded if the container runs.
func TestStartWithoutAnswer(t *testing.T) {
	for state, started := range map[runtimeapi.ContainerState]bool{
		runtimeapi.ContainerState_CONTAINER_RUNNING: true, runtimeapi.ContainerState_CONTAINER_CREATED: false, runtimeapi.ContainerState_CONTAINER_EXITED: false,
	} {
		n := &node{startErr: lost, listed: holder(func(c *runtimeapi.Container) { c.State = state })}
		if err := n.runner(t).Start(t.Context(), "old"); (err == nil) != started {
			t.Errorf("%v: %v", state, err)
		}
	}
}

func TestMissingFields(t *testing.T) {
	n := &node{}
	for want, c := range map[string]start.StarterConfig{
		"StarterConfig.Images": {}, "StarterConfig.Runtime": {Images: present{}}, "StarterConfig.Node.MemoryBytes": {Images: present{}, Runtime: client{}},
		"StarterConfig.Owner": {Images: present{}, Runtime: client{}, Node: container.Node{MemoryBytes: 1}, Owner: cri.Owner{Name: "not a label!"}},
	} {
		if _, err := start.NewStarter(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
	for want, c := range map[string]start.Config{
		"Config.Runtime": {Disposer: n}, "Config.Disposer": {Runtime: n}, "Config.CleanupTimeout": {Runtime: n, Disposer: n, CleanupTimeout: -1},
		"Config.Owner": {Runtime: n, Disposer: n, Owner: cri.Owner{Name: "not a label!"}},
	} {
		if _, err := start.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error about %s", err, want)
		}
	}
}
