package gc_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/gc"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// dead, running and created return instances of container app in sandbox s0.
func dead(attempt uint32, ended time.Duration) runtime.ContainerStatus {
	c := instance(attempt, runtime.ContainerExited)
	c.CreatedAt, c.FinishedAt = now.Add(-240*time.Hour), now.Add(-ended)
	return c
}

func running(attempt uint32) runtime.ContainerStatus {
	return instance(attempt, runtime.ContainerRunning)
}

func instance(attempt uint32, state runtime.ContainerState) runtime.ContainerStatus {
	return runtime.ContainerStatus{
		ID: runtime.ContainerID{Type: "test", ID: fmt.Sprintf("c%d", attempt)}, Name: "app", Attempt: attempt, State: state, SandboxID: "s0",
	}
}

func in(sandbox string, c runtime.ContainerStatus) runtime.ContainerStatus {
	c.SandboxID, c.ID.ID = sandbox, sandbox+"-"+c.ID.ID
	return c
}

func named(name string, c runtime.ContainerStatus) runtime.ContainerStatus {
	c.Name, c.ID.ID = name, name+"-"+c.ID.ID
	return c
}

func box(attempt uint32, state runtime.SandboxState) runtime.SandboxStatus {
	return runtime.SandboxStatus{ID: fmt.Sprintf("s%d", attempt), Attempt: attempt, State: state}
}

func text(g gc.Garbage) string {
	var all []string
	for _, c := range g.Containers {
		all = append(all, c.ID)
	}
	return strings.Join(append(all, g.Sandboxes...), " ")
}

func TestDecide(t *testing.T) {
	type containers = []runtime.ContainerStatus
	type sandboxes = []runtime.SandboxStatus
	for _, tt := range []struct {
		name       string
		containers containers
		sandboxes  sandboxes
		want       string
	}{
		{"one that runs for the first time", containers{running(0)}, nil, ""},
		{"one that has followed one", containers{running(1), dead(0, 1)}, nil, ""},
		{"one that has followed three", containers{running(3), dead(2, 1), dead(1, 2), dead(0, 3)}, nil, "c1 c0"},
		{"in any order", containers{dead(0, 3), dead(2, 1), running(3), dead(1, 2)}, nil, "c1 c0"},
		{"by attempt, not by the clock", containers{running(3), dead(2, 3), dead(0, 1), dead(1, 2)}, nil, "c1 c0"},
		{"the current one has ended", containers{dead(3, 1), dead(2, 2), dead(1, 3)}, nil, "c1"},
		{"the current one has not run", containers{instance(3, runtime.ContainerCreated), dead(2, 1), dead(1, 2), dead(0, 3)}, nil, "c0"},
		{"the current one is unknown", containers{instance(3, runtime.ContainerUnknown), dead(2, 1), dead(1, 2), dead(0, 3)}, nil, "c0"},
		{"not dead", containers{running(4), instance(3, runtime.ContainerCreated), instance(2, runtime.ContainerUnknown), running(1), dead(0, 1)}, nil, ""},
		{"equal attempts: the first listed is newer", containers{in("s1", dead(1, 1)), in("s0", dead(1, 1)), dead(0, 1)}, nil, "c0"},
		{"equal attempts, one running", containers{in("s2", dead(1, 1)), in("s1", dead(1, 1)), running(1)}, nil, "s1-c1"},
		{"each name for itself", containers{
			named("b", dead(2, 1)), running(2), named("a", dead(2, 1)), dead(1, 1), named("b", dead(1, 1)), named("b", dead(0, 1)), dead(0, 1),
			named("a", dead(1, 1)), named("a", dead(0, 1)),
		}, nil, "a-c0 c0 b-c0"},

		{"the latest sandbox", nil, sandboxes{box(0, runtime.SandboxNotReady)}, ""},
		{"sandboxes before the latest", nil, sandboxes{box(2, runtime.SandboxReady), box(0, runtime.SandboxNotReady), box(1, runtime.SandboxNotReady)}, "s0 s1"},
		{"the latest is not ready either", nil, sandboxes{box(2, runtime.SandboxNotReady), box(1, runtime.SandboxNotReady)}, "s1"},
		{"one that is ready beside the latest", nil, sandboxes{box(1, runtime.SandboxReady), box(0, runtime.SandboxReady)}, ""},
		{"one in use", containers{in("s0", dead(0, 1))}, sandboxes{box(1, runtime.SandboxReady), box(0, runtime.SandboxNotReady)}, ""},
		{"one that may be in use", containers{in("", dead(0, 1))}, sandboxes{box(1, runtime.SandboxReady), box(0, runtime.SandboxNotReady)}, ""},
		{"in use until its containers are gone", containers{in("s1", running(2)), in("s0", dead(1, 1)), in("s0", dead(0, 1))},
			sandboxes{box(1, runtime.SandboxReady), box(0, runtime.SandboxNotReady)}, "s0-c0"},
	} {
		status := &runtime.PodStatus{UID: "u", Containers: tt.containers, Sandboxes: tt.sandboxes}
		before := *status
		before.Containers, before.Sandboxes = slices.Clone(status.Containers), slices.Clone(status.Sandboxes)
		if got := text(gc.Decide(status)); got != tt.want {
			t.Errorf("%s: %q may go, want %q", tt.name, got, tt.want)
		}
		if !reflect.DeepEqual(status, &before) {
			t.Errorf("%s: the status was written to", tt.name)
		}
	}
	if got := text(gc.Decide(nil)); got != "" {
		t.Errorf("of nothing %q may go", got)
	}
}

// randomPod returns a random pod with random runtime objects.
func randomPod(r *rand.Rand) (*v1.Pod, *runtime.PodStatus) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[r.IntN(3)]
	for i := range r.IntN(4) {
		c := v1.Container{Name: fmt.Sprintf("i%d", i), Image: "img"}
		if r.IntN(3) == 0 {
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: fmt.Sprintf("c%d", i), Image: "img"})
	}
	status := &runtime.PodStatus{UID: "u"}
	for attempt := range r.IntN(4) {
		sb := box(uint32(attempt), runtime.SandboxState(r.IntN(2)))
		sb.Network = &runtime.SandboxNetwork{IPs: []string{"10.0.0.1"}}
		status.Sandboxes = append(status.Sandboxes, sb)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range r.IntN(6) {
			instance := runtime.ContainerStatus{
				ID: runtime.ContainerID{Type: "test", ID: fmt.Sprintf("%s-%d", c.Name, i)}, Name: c.Name, Attempt: uint32(r.IntN(6)),
				State: runtime.ContainerExited, ExitCode: []int32{0, 1}[r.IntN(2)],
			}
			if r.IntN(4) == 0 {
				instance.State = runtime.ContainerState(r.IntN(4))
			}
			if n := len(status.Sandboxes); n > 0 && r.IntN(4) > 0 {
				instance.SandboxID = status.Sandboxes[r.IntN(n)].ID
			}
			status.Containers = append(status.Containers, instance)
		}
	}
	r.Shuffle(len(status.Containers), func(i, j int) {
		status.Containers[i], status.Containers[j] = status.Containers[j], status.Containers[i]
	})
	return pod, status
}

// without returns the status that is left.
func without(status *runtime.PodStatus, g gc.Garbage) *runtime.PodStatus {
	left := *status
	left.Containers = slices.DeleteFunc(slices.Clone(status.Containers), func(c runtime.ContainerStatus) bool { return slices.Contains(g.Containers, c.ID) })
	left.Sandboxes = slices.DeleteFunc(slices.Clone(status.Sandboxes), func(s runtime.SandboxStatus) bool { return slices.Contains(g.Sandboxes, s.ID) })
	return &left
}

// The plan for a pod is the same before and after the collection of its garbage, except that
// collected instances need no removal when all containers restart. The current
// instances, which determine restart counts and attempts, and the running containers are also the same.
func TestG2_GarbageDecidesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	removed := 0
	for range 20_000 {
		pod, status := randomPod(r)
		garbage := gc.Decide(status)
		left := without(status, garbage)
		removed += len(status.Containers) - len(left.Containers)
		for _, restartAll := range []bool{false, true} {
			before := actions.Compute(actions.Input{Pod: pod, Status: status, RestartAll: restartAll})
			after := actions.Compute(actions.Input{Pod: pod, Status: left, RestartAll: restartAll})
			before.Reset = slices.DeleteFunc(before.Reset, func(s actions.ResetStep) bool { return slices.Contains(garbage.Containers, s.ID) })
			if len(before.Reset) == 0 {
				before.Reset = nil
			}
			if !reflect.DeepEqual(before, after) {
				t.Fatalf("%+v\nwithout %v:\n%v\nwith it:\n%v", status.Containers, garbage, after, before)
			}
		}
		for i := range status.Containers {
			c := &status.Containers[i]
			if was, is := status.Latest(c.Name), left.Latest(c.Name); is == nil || was.ID != is.ID {
				t.Fatalf("the current instance of %s is %v, was %v", c.Name, is, was)
			}
			if c.Live() && slices.Contains(garbage.Containers, c.ID) {
				t.Fatalf("%v may go and is %v", c.ID, c.State)
			}
		}
		// A decision does not change after it has been carried out.
		if again := gc.Decide(left); len(again.Containers) > 0 {
			t.Fatalf("%v may go after %v did", again, garbage)
		}
	}
	if removed < 10_000 {
		t.Errorf("only %d instances were garbage, which shows little", removed)
	}
}

func BenchmarkDecide(b *testing.B) {
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{running(1), dead(0, 1)}, Sandboxes: []runtime.SandboxStatus{box(0, runtime.SandboxReady)}}
	b.ReportAllocs()
	for b.Loop() {
		gc.Decide(status)
	}
}
