package actions_test

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

var deleted = metav1.Unix(1, 0)

func memoryLimit(limit string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(limit)}}
}

// once makes the pod one that runs once, with a sidecar and an init container that have run in a sandbox that is no longer
// ready.
func once(in *actions.Input) {
	in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
	in.Status.Sandboxes[0].State = runtime.SandboxNotReady
	in.Status.Containers = in.Status.Containers[:2]
	in.StatusComplete = true
}

// ran adds an instance that has run and ended.
func ran(in *actions.Input, name string, code int32) {
	in.Status.Containers = append(in.Status.Containers, runtime.ContainerStatus{
		Name: name, ID: runtime.ContainerID{ID: "old"}, SandboxID: "s0", State: runtime.ContainerExited, ExitCode: code,
	})
}

// The facts that a caller remembers determine lines of the plan.
func TestFacts(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	crashed := map[string]actions.Hold{"web": {Reason: actions.CrashBackOff, Until: noon}}
	for name, c := range map[string]struct {
		change func(in *actions.Input)
		want   string
	}{
		"S3: lost its sandbox before its run": {once, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"S3: nothing is known beyond the status": {func(in *actions.Input) { once(in); in.StatusComplete = false },
			`stop the pod: the sandbox is not ready`},
		"S3: an init container has failed": {func(in *actions.Input) { once(in); in.Status.Containers[0].ExitCode = 1 },
			`stop the pod: the sandbox is not ready`},
		"S3: a sidecar has failed": {func(in *actions.Input) {
			once(in)
			in.Status.Containers[1].State, in.Status.Containers[1].ExitCode = runtime.ContainerExited, 1
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"S3: it is deleted": {func(in *actions.Input) { once(in); in.Pod.DeletionTimestamp = &deleted },
			`stop the pod: the sandbox is not ready`},
		"C5: its sandbox was removed after its run": {func(in *actions.Input) {
			once(in)
			ran(in, "web", 0)
			in.Status.Sandboxes = nil
		}, `stop the pod: the pod has no sandbox`},
		"C5: its sandbox was removed before its run": {func(in *actions.Input) { once(in); in.Status.Sandboxes = nil },
			`stop what is left of the pod: the pod has no sandbox
create sandbox, attempt 0: the pod has no sandbox
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"C11: an ephemeral container was started": {func(in *actions.Input) {
			debug(in, runtime.ContainerRunning)
			in.Status.Containers = in.Status.Containers[:4]
			in.Started = []string{"debug"}
		}, `nothing to do`},
		"C11: another one was": {func(in *actions.Input) {
			debug(in, runtime.ContainerRunning)
			in.Status.Containers = in.Status.Containers[:4]
			in.Started = []string{"other"}
		}, `start ephemeral container "debug", attempt 0: the runtime has no record of it`},
		"S4: an address is waited for": {func(in *actions.Input) {
			in.Status.Sandboxes[0].Network.IPs = nil
			in.Status.Containers = in.Status.Containers[:3]
			in.AddressWait = actions.Hold{Reason: actions.AddressPending, Until: noon}
		}, `wait for the sandbox until 2026-06-01T12:00:00Z: the sandbox has no address yet
start container "worker", attempt 0: the runtime has no record of it`},
		"S4: an address that has come": {func(in *actions.Input) {
			in.AddressWait = actions.Hold{Reason: actions.AddressPending, Until: noon}
		}, `nothing to do`},
		"S4: a network of the node needs no address": {func(in *actions.Input) {
			in.Pod.Spec.HostNetwork = true
			in.Status.Sandboxes[0].NetworkMode, in.Status.Sandboxes[0].Network.IPs = runtime.NamespaceNode, nil
		}, `nothing to do`},
		"S3: a container was only created": {func(in *actions.Input) {
			once(in)
			ran(in, "web", 0)
			container(in, "web").State = runtime.ContainerCreated
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"S3: an init container is not known to have failed": {func(in *actions.Input) {
			once(in)
			in.Status.Containers[0].State, in.Status.Containers[0].ExitCode = runtime.ContainerUnknown, 1
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"C5: its sandbox was removed after its run, and nothing else is known": {func(in *actions.Input) {
			once(in)
			ran(in, "web", 0)
			in.Status.Sandboxes, in.StatusComplete = nil, false
		}, `stop what is left of the pod: the pod has no sandbox
create sandbox, attempt 0: the pod has no sandbox
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"S3: in a new sandbox what has succeeded does not run again": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy, in.Pod.Spec.InitContainers = v1.RestartPolicyOnFailure, nil
			in.Status.Containers = in.Status.Containers[2:]
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "web").State = runtime.ContainerExited
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start container "worker", attempt 1: the pod starts in a new sandbox`},
		"S3: in a new sandbox what has failed runs again": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy, in.Pod.Spec.InitContainers = v1.RestartPolicyOnFailure, nil
			in.Status.Containers = in.Status.Containers[2:3]
			in.Pod.Spec.Containers = in.Pod.Spec.Containers[:1]
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "web").State, container(in, "web").ExitCode = runtime.ContainerExited, 1
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 1: the sandbox is not ready
start container "web", attempt 1: the pod starts in a new sandbox`},
		"it is evicted, and all containers restart": {func(in *actions.Input) { in.End, in.RestartAll = actions.PodEvicted, true },
			`stop the pod: the node stops the pod`},
		"it is not admitted": {func(in *actions.Input) {
			in.Status.Containers = in.Status.Containers[:3]
			in.Blocked = actions.Hold{Reason: actions.PodNotAdmitted, Until: noon}
		}, `wait until 2026-06-01T12:00:00Z: the pod is not admitted to the node
stop the pod for now: the pod is not admitted to the node`},
		"it is not admitted, and nothing of it runs": {func(in *actions.Input) {
			in.Status = nil
			in.Blocked = actions.Hold{Reason: actions.PodNotAdmitted}
		}, `wait: the pod is not admitted to the node`},
		"it is not admitted, and has ended": {func(in *actions.Input) {
			in.End, in.Blocked = actions.PodEnded, actions.Hold{Reason: actions.PodNotAdmitted}
		}, `stop the pod: the pod has succeeded or failed`},
		"the node has no network": {func(in *actions.Input) {
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			in.Blocked = actions.Hold{Reason: actions.NetworkNotReady}
		}, `wait: the network of the node is not ready`},
		"R6: a restart in the sandbox that the pod has needs no network of the node": {func(in *actions.Input) {
			container(in, "web").State = runtime.ContainerExited
			in.Blocked = actions.Hold{Reason: actions.NetworkNotReady}
		}, `start container "web", attempt 1: it has ended and its restart policy asks for another run`},
		"B1: a crash is waited for": {func(in *actions.Input) {
			container(in, "web").State = runtime.ContainerExited
			in.StartHolds = crashed
		}, `start container "web", attempt 1: it has ended and its restart policy asks for another run; wait until 2026-06-01T12:00:00Z: the container has ended again and again`},
		"B1: a failed probe counts as a crash": {func(in *actions.Input) {
			in.Probes[container(in, "web").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
			in.StartHolds = crashed
		}, `kill container "web" containerd://id-web: its liveness probe failed, then start it again
start container "web", attempt 1: its liveness probe failed; wait until 2026-06-01T12:00:00Z: the container has ended again and again`},
		"B1: a failed startup probe counts as a crash": {func(in *actions.Input) {
			in.Probes[container(in, "web").ID] = actions.ProbeResults{Startup: actions.ProbeFailure}
			in.StartHolds = crashed
		}, `kill container "web" containerd://id-web: its startup probe failed, then start it again
start container "web", attempt 1: its startup probe failed; wait until 2026-06-01T12:00:00Z: the container has ended again and again`},
		"B1: another image does not wait for a crash": {func(in *actions.Input) {
			in.Pod.Spec.Containers[0].Image = "other"
			in.StartHolds = crashed
		}, `kill container "web" containerd://id-web: its image changed, then start it again
start container "web", attempt 1: its image changed`},
		"B2: a failed start is waited for": {func(in *actions.Input) {
			in.Status.Containers = in.Status.Containers[:3]
			in.StartHolds = map[string]actions.Hold{"worker": {Reason: actions.FailureBackOff, Until: noon}}
		}, `start container "worker", attempt 0: the runtime has no record of it; wait until 2026-06-01T12:00:00Z: the last try failed`},
		"B2: a failed sandbox holds up a start": {func(in *actions.Input) {
			in.Status = nil
			in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Until: noon}
		}, `create sandbox, attempt 0: the pod has no sandbox
wait for the sandbox until 2026-06-01T12:00:00Z: the last try failed
start init container "migrate", attempt 0: the pod starts in a new sandbox`},
		"B2: a failed sandbox holds up a start in the one there is": {func(in *actions.Input) {
			in.Status.Containers = in.Status.Containers[:3]
			in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Until: noon}
		}, `wait for the sandbox until 2026-06-01T12:00:00Z: the last try failed
start container "worker", attempt 0: the runtime has no record of it`},
		"B2: a failed sandbox holds up the next one": {func(in *actions.Input) {
			in.Status, in.RestartAll = nil, true
			in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Until: noon}
		}, `stop what is left of the pod: the pod has no sandbox
create sandbox, attempt 0: the pod has no sandbox
wait for the sandbox until 2026-06-01T12:00:00Z: the last try failed`},
		"B2: a failed sandbox is waited for beside the network": {func(in *actions.Input) {
			in.Status = nil
			in.SandboxHold, in.Blocked = actions.Hold{Reason: actions.FailureBackOff, Until: noon}, actions.Hold{Reason: actions.NetworkNotReady}
		}, `wait: the network of the node is not ready
wait for the sandbox until 2026-06-01T12:00:00Z: the last try failed`},
		"B2: a failed sandbox holds up nothing else": {func(in *actions.Input) {
			in.SandboxHold = actions.Hold{Reason: actions.FailureBackOff, Until: noon}
		}, `nothing to do`},
		"C10: a failed resize is waited for": {func(in *actions.Input) {
			in.Pod.Spec.Containers[0].Resources = memoryLimit("64Mi")
			container(in, "web").Resources = &runtime.ContainerResources{MemoryLimit: 128 << 20}
			in.ResizeHolds = map[string]actions.Hold{"web": {Reason: actions.FailureBackOff, Until: noon}}
		}, `resize memory of container "web" containerd://id-web: its resources changed; wait until 2026-06-01T12:00:00Z: the last try failed`},
		"C6: handlers that were cut short": {func(in *actions.Input) {
			hook := &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			for i := range in.Pod.Spec.Containers {
				in.Pod.Spec.Containers[i].Lifecycle = hook
			}
			in.PostStartPending = []runtime.ContainerID{{ID: "removed"}, container(in, "proxy").ID, container(in, "web").ID, container(in, "worker").ID}
			in.Probes[container(in, "worker").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
		}, `kill container "worker" containerd://id-worker: its liveness probe failed, then start it again
run the postStart handler of container "web" containerd://id-web: it has not been seen to end
start container "worker", attempt 1: its liveness probe failed`},
		"C6: handlers of what does not run, is not of the pod, or has none": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			in.Pod.Spec.Containers[1].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{}}
			container(in, "web").State = runtime.ContainerExited
			stranger := runtime.ContainerStatus{Name: "stranger", ID: runtime.ContainerID{ID: "x"}, SandboxID: "s0", State: runtime.ContainerRunning}
			in.Status.Containers = append(in.Status.Containers, stranger)
			in.PostStartPending = []runtime.ContainerID{stranger.ID, container(in, "web").ID, container(in, "worker").ID}
		}, `nothing to do`},
		"C6: the handler of an instance whose place is taken": {func(in *actions.Input) {
			in.Pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			old := *container(in, "web")
			old.ID.ID = "old"
			container(in, "web").Attempt = 1
			in.Status.Containers = append(in.Status.Containers, old)
			in.PostStartPending = []runtime.ContainerID{old.ID, container(in, "web").ID}
		}, `clear container "web" containerd://old: a newer instance has taken its place
run the postStart handler of container "web" containerd://id-web: it has not been seen to end`},
		"C6: handlers of a pod that has had its run": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.InitContainers[1].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
			in.PostStartPending = []runtime.ContainerID{container(in, "proxy").ID}
			container(in, "web").State, container(in, "worker").State = runtime.ContainerExited, runtime.ContainerExited
		}, `stop the pod: no container is running and none is to run again`},
		"an init container may have failed": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Status.Containers = in.Status.Containers[:1]
			in.Status.Containers[0].State = runtime.ContainerUnknown
		}, `stop the pod for now: the runtime cannot tell whether an init container has failed, until it has been stopped`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSuffix(actions.Compute(settledWith(c.change)).String(), "\n"); got != c.want {
				t.Errorf("the plan is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// The container whose exit requests a restart of all containers is removed last.
func TestResetOrder(t *testing.T) {
	for _, asks := range []string{"web", "proxy"} {
		plan := actions.Compute(settledWith(func(in *actions.Input) {
			rule := v1.ContainerRestartRule{
				Action:    v1.ContainerRestartRuleActionRestartAllContainers,
				ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{3}},
			}
			in.Pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule}
			in.Pod.Spec.InitContainers[1].RestartPolicyRules = []v1.ContainerRestartRule{rule}
			c := container(in, asks)
			c.State, c.ExitCode, in.RestartAll = runtime.ContainerExited, 3, true
		}))
		for i, s := range plan.Reset {
			if last := i == len(plan.Reset)-1; s.Last != last || last != (s.Container.Name == asks) {
				t.Errorf("%s: step %d of %d: %+v", asks, i, len(plan.Reset), s)
			}
		}
		if len(plan.Reset) != 4 {
			t.Errorf("%s: %v", asks, plan)
		}
	}
}

// A container that releases memory is resized before one that takes more. Removing a limit takes more, and a first limit
// does not.
func TestResizeOrder(t *testing.T) {
	for name, c := range map[string]struct {
		want   string
		before []int64 // the limits of web and of worker, to be changed to want
		first  string
	}{
		"web takes more":         {"64Mi", []int64{32 << 20, 128 << 20}, "worker"},
		"worker takes more":      {"64Mi", []int64{128 << 20, 32 << 20}, "web"},
		"worker has a new limit": {"64Mi", []int64{32 << 20, 0}, "worker"},
		"both limits are lifted": {"", []int64{32 << 20, 64 << 20}, ""},
	} {
		plan := actions.Compute(settledWith(func(in *actions.Input) {
			for i, container := range []*runtime.ContainerStatus{container(in, "web"), container(in, "worker")} {
				if c.want != "" {
					in.Pod.Spec.Containers[i].Resources = memoryLimit(c.want)
				}
				container.Resources = new(runtime.ResourcesOf(&in.Pod.Spec, &in.Pod.Spec.Containers[i]))
				container.Resources.MemoryLimit = c.before[i]
			}
		}))
		if len(plan.Resize) != 2 || c.first != "" && plan.Resize[0].Container.Name != c.first || plan.Resize[0].MoreMemory != (c.first == "") || !plan.Resize[1].MoreMemory {
			t.Errorf("%s:\n%v", name, plan)
		}
	}
}

// A plan has the attempt of the existing sandbox until the sandbox is replaced.
func TestSandboxAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *actions.Input)
		want   uint32
	}{
		"settled": {func(*actions.Input) {}, 4},
		"waits for an address": {func(in *actions.Input) {
			in.Status.Sandboxes[0].Network.IPs, in.AddressWait = nil, actions.Hold{Reason: actions.AddressPending}
		}, 4},
		"has no address": {func(in *actions.Input) { in.Status.Sandboxes[0].Network.IPs = nil }, 5},
	} {
		plan := actions.Compute(settledWith(func(in *actions.Input) { in.Status.Sandboxes[0].Attempt = 4; c.change(in) }))
		if plan.Sandbox.Attempt != c.want {
			t.Errorf("%s: attempt %d, want %d", name, plan.Sandbox.Attempt, c.want)
		}
	}
}
