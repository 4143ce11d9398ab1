package syncpod_test

import (
	"context"
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// releases counts what is released.
type releases struct {
	syncpod.NopLifecycle
	of map[string]int
}

func (r releases) Release(_ *v1.Pod, container string) { r.of[container]++ }

func TestWhatDoesNotRunIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		released := releases{of: map[string]int{}}
		n.restart(func(c *syncpod.Config) { c.Lifecycle = released })
		pod := testPod(containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		if n.exit("app", 1); len(released.of) != 0 {
			t.Errorf("released %v while all ran", released.of)
		}
		if n.sync(pod); released.of["app"] == 0 || released.of["b"] != 0 {
			t.Errorf("released %v, want app", released.of)
		}
	})
}

// What a result says has failed stays, whatever comes of it later.
func TestResultsAreKept(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		n.inject(critest.Fault{Match: critest.Match{Method: critest.CreateContainer}, Err: errBroken})
		first, _ := n.SyncPod(t.Context(), testPod(), nil)
		second := n.sync(testPod())
		if len(first.Failed) != 1 || first.Failed[0].Waits || len(second.Failed) != 1 || !second.Failed[0].Waits {
			t.Errorf("failed %+v, then %+v", first.Failed, second.Failed)
		}
	})
}

// failing are parts of which one fails.
type failing struct {
	syncpod.NopLifecycle
	*logs
	preCreate, preStart, directory error
}

func (f failing) PreCreate(context.Context, *v1.Pod, *v1.Container, *runtimeapi.ContainerConfig) error {
	return f.preCreate
}

func (f failing) PreStart(context.Context, *v1.Pod, *v1.Container, runtime.ContainerID) error {
	return f.preStart
}

func (f failing) MakeDirectory(string, string) error { return f.directory }

func TestNothingIsMadeOfWhatIsNotReady(t *testing.T) {
	for want, tc := range map[syncpod.Reason]struct {
		parts   failing
		created int
	}{
		syncpod.ErrPreCreateHook:   {failing{preCreate: errBroken}, 0},
		syncpod.ErrCreateContainer: {failing{directory: errBroken}, 0},
		syncpod.ErrPreStartHook:    {failing{preStart: errBroken}, 1},
	} {
		t.Run(string(want), func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				tc.parts.logs = n.logs
				n.restart(func(c *syncpod.Config) { c.Lifecycle, c.Logs = tc.parts, tc.parts })
				_, err := n.SyncPod(t.Context(), testPod(), nil)
				if j := n.Journal(); !errors.Is(err, want) || !errors.Is(err, errBroken) || j.Count(critest.CreateContainer) != tc.created || j.Count(critest.StartContainer) != 0 {
					t.Errorf("error %v, want %v\n%v", err, want, j)
				}
			})
		})
	}
}

// What an event says of a container that cannot be made has no identifier in it.
func TestFailedCreateIsToldWithoutIDs(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(ctr("app"), ctr("b")))
		n.settle(pod, time.Minute)
		n.exit("app", 1)
		sandbox, other := n.status().Sandboxes[0].ID, n.current("b").ID.ID
		n.inject(critest.Fault{Match: critest.Match{Method: critest.CreateContainer}, Err: errors.New("sandbox " + sandbox + " is busy with " + other)})
		n.drive(pod, time.Minute)
		if n.events.count(sandbox)+n.events.count(other) != 0 || n.events.count("Error: ") != 1 || n.events.count("is busy with b") != 1 {
			t.Errorf("events %q", n.events.all)
		}
	})
}

// C6: a container whose handler has failed, and which could not be stopped for that,
// has its handler run again. Its failure is told by an event of its own.
func TestC6_FailedHandlerOfWhatStillRuns(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		pod := testPod(containers(postStart(ctr("app"), "false")))
		n.inject(critest.Fault{Match: critest.Match{Method: critest.StopContainer}, Err: errBroken})
		n.SyncPod(t.Context(), pod, nil)
		r, err := n.SyncPod(t.Context(), pod, nil)
		if !errors.Is(err, syncpod.ErrPostStartHook) || len(r.Failed) != 1 || r.Failed[0].Container.Name != "app" || n.hooks.calls != 2 {
			t.Errorf("error %v, failed %+v; the handler was run %d times, want twice", err, r.Failed, n.hooks.calls)
		}
		if n.events.count("FailedPostStartHook spec") != 2 || n.events.count("Error: ") != 0 {
			t.Errorf("events %q", n.events.all)
		}
	})
}

// C6: the handler of a container that is to go anyway is not run any more.
func TestC6_NoHandlerForWhatIsToGo(t *testing.T) {
	dir := t.TempDir()
	bubble(t, func(t *testing.T, n *node) {
		n.restart(recorded(dir))
		pod := testPod(containers(postStart(ctr("app"), "true")))
		n.crashDuring(critest.StartContainer, "app", func(ctx context.Context) { n.SyncPod(ctx, pod, nil) }, recorded(dir))
		old := n.current("app").ID.ID
		n.inject(critest.Fault{Match: critest.Match{Method: critest.StopContainer}, Err: errBroken})
		pod.Spec.Containers[0].Image = "registry.test/app:2"
		n.SyncPod(t.Context(), pod, nil)
		for _, c := range n.Journal().Of(critest.ExecSync) {
			if c.ContainerID == old {
				t.Errorf("a handler was run: %v", c)
			}
		}
	})
}

// What must not run as root is not made with root as its user.
func TestNonRoot(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		c := ctr("app")
		c.SecurityContext = &v1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}
		_, err := n.SyncPod(t.Context(), testPod(containers(c)), nil)
		if !errors.Is(err, syncpod.ErrCreateContainerConfig) || n.Journal().Count(critest.CreateContainer) != 0 {
			t.Errorf("error %v\n%v", err, n.Journal())
		}
	})
}
