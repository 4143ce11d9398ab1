package actions_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// An explanation describes what happens to the pod and to each container, and until when a step waits.
func TestExplainPod(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(in *actions.Input)
		want   []string // in this order
	}{
		"settled": {func(*actions.Input) {}, []string{"The pod is as it should be.\n", `Container "web" is left alone: it runs as it should`}},
		"a container crashes": {func(in *actions.Input) {
			container(in, "web").State = runtime.ContainerExited
			in.StartHolds = map[string]actions.Hold{"web": {Reason: actions.CrashBackOff, Until: noon}}
		}, []string{
			"The pod stays in its sandbox, and some of its containers change.\n",
			`Container "web" is to be started as attempt 1: it has ended and its restart policy asks for another run. The start waits until 2026-06-01T12:00:00Z: the container has ended again and again. `,
		}},
		"a resize has failed": {func(in *actions.Input) {
			in.Pod.Spec.Containers[0].Resources = memoryLimit("64Mi")
			container(in, "web").Resources = &runtime.ContainerResources{MemoryLimit: 128 << 20}
			in.ResizeHolds = map[string]actions.Hold{"web": {Reason: actions.FailureBackOff, Until: noon, Message: "in use"}}
		}, []string{`Container "web" is to have its memory changed in place: its resources changed. The change waits until 2026-06-01T12:00:00Z: the last try failed (in use).`}},
		"an address is waited for": {func(in *actions.Input) {
			in.Status.Sandboxes[0].Network.IPs = nil
			in.AddressWait = actions.Hold{Reason: actions.AddressPending, Until: noon}
		}, []string{"No container is started before its sandbox is ready. The sandbox waits until 2026-06-01T12:00:00Z: the sandbox has no address yet.\n"}},
		"not admitted": {func(in *actions.Input) { in.Blocked = actions.Hold{Reason: actions.PodNotAdmitted, Message: "no room"} },
			[]string{"The pod waits: the pod is not admitted to the node (no room). Its containers are stopped meanwhile.\n", `Stopping container web with the whole pod: the pod is not admitted to the node`}},
		"not admitted, and its sandbox has no address yet": {func(in *actions.Input) {
			in.Status.Sandboxes[0].Network.IPs = nil
			in.AddressWait, in.Blocked = actions.Hold{Reason: actions.AddressPending, Until: noon}, actions.Hold{Reason: actions.PodNotAdmitted}
		}, []string{"Its containers are stopped meanwhile. No container is started before its sandbox is ready."}},
		"the node has no network": {func(in *actions.Input) {
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			in.Blocked = actions.Hold{Reason: actions.NetworkNotReady}
		},
			[]string{"The pod waits: the network of the node is not ready.\n"}},
		"a handler was cut short": {func(in *actions.Input) {
			in.Pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			in.PostStartPending = []runtime.ContainerID{container(in, "web").ID}
		}, []string{
			`Container "web" has its postStart handler run again, because the handler has not been seen to end. `,
			`Container "worker" is left alone: it runs as it should`,
		}},
		"deleted": {func(in *actions.Input) { in.End = actions.PodDeleted },
			[]string{"The pod is stopped for good: the pod is being deleted.\n", `Stopping container web with the whole pod: the pod is being deleted.`}},
		"its sandbox is lost": {func(in *actions.Input) { in.Status.Sandboxes[0].State = runtime.SandboxNotReady },
			[]string{"The pod gets a new sandbox, attempt 1: the sandbox is not ready. Pod sandbox changed, it will be killed and re-created.\n"}},
		"an init container may have failed": {func(in *actions.Input) {
			once(in)
			in.Status.Sandboxes[0].State = runtime.SandboxReady
			in.Status.Containers = in.Status.Containers[:1]
			in.Status.Containers[0].State = runtime.ContainerUnknown
		}, []string{"The pod is stopped, and then judged again: "}},
		"no pod": {func(in *actions.Input) { in.Pod = nil }, []string{"Nothing is done, because"}},
	} {
		t.Run(name, func(t *testing.T) {
			said := actions.ExplainPod(settledWith(c.change))
			rest := said
			for _, want := range c.want {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q, want %q in it", said, want)
				}
				rest = after
			}
		})
	}
}

// The texts about stops are those of a kubelet's events.
func TestKillMessage(t *testing.T) {
	for _, c := range []struct {
		why     actions.Reason
		restart bool
		want    string
	}{
		{actions.ReasonNone, false, "Stopping container app"},
		{actions.Superseded, false, "Stopping container app"},
		{actions.LivenessFailed, false, "Container app failed liveness probe"},
		{actions.StartupFailed, true, "Container app failed startup probe, will be restarted"},
		{actions.SpecChanged, true, "Container app definition changed, will be restarted"},
		{actions.ContainerStateUnknown, false, "Container app is in unknown state"},
		{actions.ResizeRestart, true, "Container app resize requires restart"},
	} {
		if got := actions.KillMessage("app", c.why, c.restart); got != c.want {
			t.Errorf("%v: %q, want %q", c.why, got, c.want)
		}
	}
}

// A sandbox is described as changed if it is replaced, and not if it is the pod's first.
func TestSandboxMessage(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*actions.Input)
		said   bool
	}{
		"not ready": {func(in *actions.Input) { in.Status.Sandboxes[0].State = runtime.SandboxNotReady }, true},
		"nothing":   {func(in *actions.Input) { in.Status = nil }, false},
		"none":      {func(in *actions.Input) { in.Status.Sandboxes = nil }, false},
		"deleted":   {func(in *actions.Input) { in.End = actions.PodDeleted }, false},
		"settled":   {func(*actions.Input) {}, false},
	} {
		plan := actions.Compute(settledWith(c.change))
		if said := plan.SandboxMessage() != ""; said != c.said {
			t.Errorf("%s: said %t, want %t", name, said, c.said)
		}
	}
}
