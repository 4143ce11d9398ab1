package syncpod_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod"
)

// lifecycle notes the calls of a syncpod.ContainerLifecycle. The calls in fails fail once.
type lifecycle struct {
	mu    sync.Mutex
	calls []string
	fails map[string]error
}

func (l *lifecycle) note(call, container, id string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id != "" {
		id = " " + id
	}
	l.calls = append(l.calls, call+" "+container+id)
	err := l.fails[call]
	delete(l.fails, call)
	return err
}

func (l *lifecycle) PreCreateContainer(_ context.Context, _ *v1.Pod, c *v1.Container, config *runtimeapi.ContainerConfig) error {
	config.Linux.Resources.CpusetCpus = "2-3"
	return l.note("create", c.Name, "")
}

func (l *lifecycle) PreStartContainer(_ context.Context, _ *v1.Pod, c *v1.Container, id string) error {
	return l.note("start", c.Name, id)
}

func (l *lifecycle) PreStopContainer(_ context.Context, _ *v1.Pod, container, id string) error {
	return l.note("stop", container, id)
}

func (l *lifecycle) PostStopContainer(_ context.Context, _ *v1.Pod, container, id string) error {
	return l.note("stopped", container, id)
}

// take returns the calls since the last take.
func (l *lifecycle) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := l.calls
	l.calls = nil
	return calls
}

func TestContainerLifecycle(t *testing.T) {
	bubble(t, func(t *testing.T, n *node) {
		hooks := &lifecycle{}
		with := func(c *syncpod.Config) { c.Extensions.Lifecycle = hooks }
		n.restart(with)
		want := func(when string, want ...string) {
			t.Helper()
			if got := hooks.take(); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		pod := testPod(containers(preStop(ctr("app"), "true")))
		n.settle(pod, time.Minute)
		first := n.current("app").ID.ID
		want("started", "create app", "start app "+first)
		for _, c := range n.Journal().Of(critest.CreateContainer) {
			if set := c.Request().(*runtimeapi.CreateContainerRequest).Config.Linux.Resources.CpusetCpus; set != "2-3" {
				t.Errorf("the runtime got the CPUs %q", set)
			}
		}
		n.exit("app", 1)
		n.drive(pod, time.Minute)
		second := n.current("app").ID.ID
		want("exited by itself", "stopped app "+first, "create app", "start app "+second)
		n.drive(pod, time.Minute)
		want("later")
		n.restart(with)
		n.sync(pod)
		want("the next agent", "stopped app "+first)
		n.end(pod, nil)
		want("ended", "stop app "+second, "stopped app "+second)
	})
}

// A failed call delays a start, and no stop.
func TestContainerLifecycleThatFails(t *testing.T) {
	for call, reason := range map[string]syncpod.Reason{"create": syncpod.ErrPreCreateHook, "start": syncpod.ErrPreStartHook} {
		t.Run(call, func(t *testing.T) {
			bubble(t, func(t *testing.T, n *node) {
				hooks := &lifecycle{fails: map[string]error{call: errBroken}}
				n.restart(func(c *syncpod.Config) { c.Extensions.Lifecycle = hooks })
				if _, err := n.SyncPod(t.Context(), testPod(), nil); !errors.Is(err, reason) || !errors.Is(err, errBroken) {
					t.Errorf("error %v, want %v", err, reason)
				}
				if got := n.Journal().Count(critest.StartContainer); got != 0 {
					t.Errorf("%d starts, want 0", got)
				}
				n.drive(testPod(), time.Minute)
				if got := n.Journal().Count(critest.StartContainer); got != 1 {
					t.Errorf("%d starts, want 1\n%v", got, n.Journal())
				}
			})
		})
	}
	bubble(t, func(t *testing.T, n *node) {
		hooks := &lifecycle{fails: map[string]error{"stop": errBroken, "stopped": errBroken}}
		n.restart(func(c *syncpod.Config) { c.Extensions.Lifecycle = hooks })
		n.settle(testPod(), time.Minute)
		id := n.current("app").ID.ID
		n.end(testPod(), nil)
		if got := strings.Join(hooks.take()[2:], ", "); got != fmt.Sprintf("stop app %s, stopped app %[1]s, stopped app %[1]s", id) {
			t.Errorf("calls %s", got)
		}
	})
}
