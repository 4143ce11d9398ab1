package actions_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// settledWith returns a settled pod after a change to it.
func settledWith(change func(in *actions.Input)) actions.Input {
	in := settled()
	change(&in)
	return in
}

func container(in *actions.Input, name string) *runtime.ContainerStatus {
	return in.Status.Latest(name)
}

// debug adds an ephemeral container to a pod.
func debug(in *actions.Input, state runtime.ContainerState) {
	in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	in.Status.Containers = append(in.Status.Containers, runtime.ContainerStatus{Name: "debug", SandboxID: "s0", State: state})
}

// sidecarFirst reduces a pod to its two init containers, with the sidecar first.
func sidecarFirst(in *actions.Input) {
	inits := in.Pod.Spec.InitContainers
	inits[0], inits[1] = inits[1], inits[0]
	in.Status.Containers = in.Status.Containers[:2]
}

// resizedInit reduces a pod to its first init container, which runs with more memory than its spec now has.
func resizedInit(in *actions.Input) {
	in.Pod.Spec.InitContainers[0].Resources = memoryLimit("64Mi")
	in.Status.Containers = in.Status.Containers[:1]
	c := container(in, "migrate")
	c.State, c.Resources = runtime.ContainerRunning, new(runtime.ResourcesOf(&in.Pod.Spec, &in.Pod.Spec.InitContainers[0]))
	c.Resources.MemoryLimit = 128 << 20
}

// A regular container shows that the initialization is complete. One that has exited in an unknown sandbox does not.
func TestPastInitialization(t *testing.T) {
	for state, past := range map[runtime.ContainerState]bool{
		runtime.ContainerCreated: true, runtime.ContainerRunning: true, runtime.ContainerExited: false, runtime.ContainerUnknown: false,
	} {
		for _, sandbox := range []string{"s0", ""} {
			in := settled()
			in.Status.Containers = append(in.Status.Containers[:1], in.Status.Containers[2])
			in.Status.Containers[1].State, in.Status.Containers[1].SandboxID = state, sandbox
			want := actions.NextInit
			if past || sandbox != "" {
				want = actions.ContainerMissing
			}
			if got, _ := actions.Why(in, "proxy"); got != want {
				t.Errorf("a container %v in the sandbox %q: %v, want %v", state, sandbox, got, want)
			}
		}
	}
}

// The rules hold for each container of a pod that has many.
func TestManyContainers(t *testing.T) {
	in := settled()
	for i := range 20 {
		name := fmt.Sprint("more", i)
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: name})
		in.Status.Containers = append(in.Status.Containers, runtime.ContainerStatus{Name: name, ID: runtime.ContainerID{ID: name}, SandboxID: "s0", State: runtime.ContainerRunning, Attempt: 1})
	}
	if plan := actions.Compute(in); !plan.NoOp() {
		t.Errorf("settled, and the plan is\n%v", plan)
	}
	old := *container(&in, "more18")
	old.ID.ID, old.Attempt = "old", 0
	in.Status.Containers = append(in.Status.Containers, old)
	container(&in, "more19").State = runtime.ContainerExited
	want := `clear container "more18" ://old: a newer instance has taken its place
start container "more19", attempt 2: it has ended and its restart policy asks for another run
`
	if got := actions.Compute(in).String(); got != want {
		t.Errorf("the plan is\n%s\nwant\n%s", got, want)
	}
}

// I3: an init container that was created, but not started because its agent ended, is not waited for: another one replaces
// it.
func TestI3_CreatedInitContainerIsNotWaitedFor(t *testing.T) {
	for name, state := range map[string]runtime.ContainerState{"created": runtime.ContainerCreated, "running": runtime.ContainerRunning} {
		in := settled()
		in.Status.Containers = in.Status.Containers[:1]
		in.Status.Containers[0].State = state
		plan := actions.Compute(in)
		if starts := len(plan.Start) == 1 && plan.Start[0].Reason == actions.ContainerNeverStarted; starts != (state == runtime.ContainerCreated) {
			t.Errorf("%s: %v, want a start of a created container only", name, plan)
		}
	}
}

// The plan for a settled pod with one thing changed, by the lines that follow.
func TestOneThingAtATime(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *actions.Input)
		want   string
	}{
		"nothing": {func(*actions.Input) {}, "nothing to do"},
		"a sidecar's startup probe cannot tell": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].StartupProbe = &v1.Probe{}
			in.Probes[container(in, "proxy").ID] = actions.ProbeResults{Startup: actions.ProbeUnknown}
			in.Status.Containers = in.Status.Containers[:2] // no container shows that the initialization is complete
		}, "nothing to do"},
		"an older instance was only created": {func(in *actions.Input) {
			old := *container(in, "web")
			old.ID.ID, old.State = "old", runtime.ContainerCreated
			container(in, "web").Attempt = 1
			in.Status.Containers = append(in.Status.Containers, old)
		}, `clear container "web" containerd://old: a newer instance has taken its place`},
		"an ephemeral container was only created": {func(in *actions.Input) { debug(in, runtime.ContainerCreated) }, "nothing to do"},
		"a state that does not exist": {func(in *actions.Input) { container(in, "web").State = 7 },
			`kill container "web" containerd://id-web: the runtime cannot tell whether it is alive, then start it again
start container "web", attempt 1: the runtime cannot tell whether it is alive`},
		"an unknown state of a container that runs once": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			c := container(in, "web")
			c.State, c.StartedAt = runtime.ContainerUnknown, time.Unix(1, 0)
		}, `kill container "web" containerd://id-web: the runtime cannot tell whether it is alive`},
		"an unknown state of what may never have been started": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			container(in, "web").State = runtime.ContainerUnknown
		}, `kill container "web" containerd://id-web: the runtime cannot tell whether it is alive, then start it again
start container "web", attempt 1: the runtime cannot tell whether it is alive`},
		"no record of the spec": {func(in *actions.Input) { container(in, "web").SpecHash = 0 }, "nothing to do"},
		"the last attempt there is": {func(in *actions.Input) {
			c := container(in, "web")
			c.State, c.Attempt = runtime.ContainerExited, math.MaxUint32
		}, `start container "web", attempt 4294967295: it has ended and its restart policy asks for another run`},
		"the last sandbox there is": {func(in *actions.Input) {
			in.Status.Sandboxes[0].Attempt, in.Status.Sandboxes[0].State = math.MaxUint32, runtime.SandboxNotReady
		}, `stop what is left of the pod: the sandbox is not ready
create sandbox, attempt 4294967295: the sandbox is not ready
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
		"ended, with an older instance alive": {func(in *actions.Input) {
			old := *container(in, "web")
			old.ID.ID = "old"
			c := container(in, "web")
			c.State, c.Attempt = runtime.ContainerExited, 1
			in.Status.Containers = append(in.Status.Containers, old)
		}, `clear container "web" containerd://old: a newer instance has taken its place
start container "web", attempt 2: it has ended and its restart policy asks for another run`},
		"a pod that runs once, without any container": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy, in.Status = v1.RestartPolicyNever, nil
		}, `create sandbox, attempt 0: the pod has no sandbox
start init container "migrate", attempt 0: the pod starts in a new sandbox`},
		"a stranger and dead instances beside one whose place is taken": {func(in *actions.Input) {
			old, dead := *container(in, "web"), *container(in, "worker")
			old.ID.ID, old.State = "old", runtime.ContainerCreated
			dead.ID.ID, dead.State = "dead", runtime.ContainerExited
			container(in, "web").Attempt, container(in, "worker").Attempt = 1, 1
			in.Status.Containers = append(in.Status.Containers, old, dead, runtime.ContainerStatus{Name: "stranger", SandboxID: "other", State: runtime.ContainerRunning})
		}, `clear container "web" containerd://old: a newer instance has taken its place`},
		"an ephemeral container was only created, and another is to start": {func(in *actions.Input) {
			in.Status.Containers = in.Status.Containers[:3]
			debug(in, runtime.ContainerCreated)
		}, `start container "worker", attempt 0: the runtime has no record of it`},
		"an unknown state of what may run again": {func(in *actions.Input) {
			c := container(in, "web")
			c.State, c.StartedAt = runtime.ContainerUnknown, time.Unix(1, 0)
		}, `kill container "web" containerd://id-web: the runtime cannot tell whether it is alive, then start it again
start container "web", attempt 1: the runtime cannot tell whether it is alive`},
		"an unknown state in a pod that is being deleted": {func(in *actions.Input) {
			in.Pod.DeletionTimestamp = &deleted
			container(in, "web").State = runtime.ContainerUnknown
		}, "nothing to do"},
		"a missing container of a pod that is being deleted": {func(in *actions.Input) {
			in.Pod.DeletionTimestamp = &deleted
			in.Status.Containers = in.Status.Containers[:3]
		}, "nothing to do"},
		"an unknown state of an init container": {func(in *actions.Input) {
			in.Status.Containers = in.Status.Containers[:1]
			in.Status.Containers[0].State = runtime.ContainerUnknown
		}, `kill init container "migrate" containerd://id-migrate: the runtime cannot tell whether it is alive, then start it again
start init container "migrate", attempt 1: the runtime cannot tell whether it is alive`},
		"a failed init container, and a sidecar with another image": {func(in *actions.Input) {
			sidecarFirst(in)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.InitContainers[0].Image = "other"
			container(in, "migrate").ExitCode = 1
		}, "stop the pod: an init container failed and is not to run again"},
		"a sidecar that has ended while an init container runs": {func(in *actions.Input) {
			sidecarFirst(in)
			container(in, "proxy").State, container(in, "migrate").State = runtime.ContainerExited, runtime.ContainerRunning
		}, `start init container "proxy", attempt 1: it has ended and its restart policy asks for another run`},
		"a sidecar with another image before an init container": {func(in *actions.Input) {
			sidecarFirst(in)
			in.Pod.Spec.InitContainers[0].Image = "other"
			in.Status.Containers = in.Status.Containers[1:]
		}, `kill init container "proxy" containerd://id-proxy: its image changed, then start it again
start init container "proxy", attempt 1: its image changed
start init container "migrate", attempt 0: the init container before it has done its part`},
		"a sidecar whose startup probe failed": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].StartupProbe = &v1.Probe{}
			in.Probes[container(in, "proxy").ID] = actions.ProbeResults{Startup: actions.ProbeFailure}
		}, `kill init container "proxy" containerd://id-proxy: its startup probe failed, then start it again
start init container "proxy", attempt 1: its startup probe failed`},
		"a sidecar with another image that is starting": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].StartupProbe, in.Pod.Spec.InitContainers[1].Image = &v1.Probe{}, "other"
		}, "nothing to do"},
		"a sidecar with another image whose liveness probe failed": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].LivenessProbe, in.Pod.Spec.InitContainers[1].Image = &v1.Probe{}, "other"
			in.Probes[container(in, "proxy").ID] = actions.ProbeResults{Liveness: actions.ProbeFailure}
		}, `kill init container "proxy" containerd://id-proxy: its image changed, then start it again
start init container "proxy", attempt 1: its image changed`},
		"results of probes that a sidecar does not declare": {func(in *actions.Input) {
			in.Probes[container(in, "proxy").ID] = actions.ProbeResults{Startup: actions.ProbeFailure, Liveness: actions.ProbeFailure}
		}, "nothing to do"},
		"resources of an init container that runs": {func(in *actions.Input) { resizedInit(in) },
			`resize memory of init container "migrate" containerd://id-migrate: its resources changed`},
		"resources of an init container that runs, which ask for a restart": {func(in *actions.Input) {
			resizedInit(in)
			in.Pod.Spec.InitContainers[0].ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}
		}, "nothing to do"},
		"a network of the node": {func(in *actions.Input) { in.Pod.Spec.HostNetwork = true },
			`stop what is left of the pod: the sandbox is in another network namespace than spec.hostNetwork asks for
create sandbox, attempt 1: the sandbox is in another network namespace than spec.hostNetwork asks for
start init container "migrate", attempt 1: the pod starts in a new sandbox`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.TrimSuffix(actions.Compute(settledWith(c.change)).String(), "\n"); got != c.want {
				t.Errorf("the plan is\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestResize(t *testing.T) {
	quantities := func(cpu, memory string) v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
	}
	inForce := runtime.ContainerResources{CPURequest: 100, CPULimit: 200, MemoryRequest: 64 << 20, MemoryLimit: 128 << 20}
	for name, c := range map[string]struct {
		requests, limits v1.ResourceList
		policy           []v1.ContainerResizePolicy
		want             string
	}{
		"as they are":    {quantities("100m", "64Mi"), quantities("200m", "128Mi"), nil, "nothing to do"},
		"CPU request":    {quantities("150m", "64Mi"), quantities("200m", "128Mi"), nil, "resize cpu of"},
		"CPU limit":      {quantities("100m", "64Mi"), quantities("300m", "128Mi"), nil, "resize cpu of"},
		"memory request": {quantities("100m", "65Mi"), quantities("200m", "128Mi"), nil, "resize memory of"},
		"memory limit":   {quantities("100m", "64Mi"), quantities("200m", "1Gi"), nil, "resize memory of"},
		"both":           {quantities("1", "64Mi"), quantities("2", "1Gi"), nil, "resize cpu and memory of"},
		"none any more":  {nil, nil, nil, "resize cpu and memory of"},
		"memory restarts, CPU changed": {quantities("1", "64Mi"), quantities("1", "128Mi"),
			[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}, "resize cpu of"},
		"memory restarts, memory changed": {quantities("100m", "64Mi"), quantities("200m", "1Gi"),
			[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceMemory, RestartPolicy: v1.RestartContainer}}, "kill"},
		"nothing restarts": {quantities("1", "64Mi"), quantities("1", "128Mi"),
			[]v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.NotRequired}}, "resize cpu of"},
	} {
		for _, kind := range []string{"web", "proxy"} {
			t.Run(name+" of "+kind, func(t *testing.T) {
				in := settled()
				spec := &in.Pod.Spec.Containers[0]
				if kind == "proxy" {
					spec = &in.Pod.Spec.InitContainers[1]
				}
				spec.Resources, spec.ResizePolicy = v1.ResourceRequirements{Requests: c.requests, Limits: c.limits}, c.policy
				force := inForce
				container(&in, kind).Resources = &force
				plan := actions.Compute(in)
				if !strings.HasPrefix(plan.String(), c.want) {
					t.Errorf("the plan is\n%v, want %q", plan, c.want)
				}
				if plan.NoOp() != (c.want == "nothing to do") {
					t.Errorf("quiet: %v, want %v", plan.NoOp(), c.want == "nothing to do")
				}
				in.Pod.DeletionTimestamp = &metav1.Time{}
				if plan := actions.Compute(in); !plan.NoOp() {
					t.Errorf("resized while the pod is being deleted:\n%v", plan)
				}
			})
		}
	}
}

func TestRestartAllOfADeletedPod(t *testing.T) {
	pod := shop()
	pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestartAllContainers,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{0}},
	}}
	status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: "app", State: runtime.ContainerExited}}}
	if _, asked := actions.RestartAllRequested(pod, status); !asked {
		t.Fatal("not asked for")
	}
	pod.DeletionTimestamp = &metav1.Time{}
	if _, asked := actions.RestartAllRequested(pod, status); asked {
		t.Error("asked for in a pod that is being deleted")
	}
}

func TestNilIsAnswered(t *testing.T) {
	if _, ok := actions.Why(actions.Input{}, "app"); ok {
		t.Error("a reason without a pod")
	}
	if _, ok := actions.Why(actions.Input{Pod: shop()}, "nobody"); ok {
		t.Error("a reason for a container that the pod does not have")
	}
}

// In logs and reports, a plan describes its steps and their reasons in words.
func TestPlanAsJSON(t *testing.T) {
	text := must.Get(json.Marshal(actions.Compute(actions.Input{Pod: shop()})))(t)
	for _, want := range []string{`"Kind":"init container"`, `"Reason":"the pod has no sandbox"`, `"Reason":"the pod starts in a new sandbox"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s, want %s in it", text, want)
		}
	}
}

// Every case in which a container is left alone has a reason.
func TestWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(in *actions.Input)
		of     string
		want   actions.Reason
	}{
		"running":           {func(*actions.Input) {}, "web", actions.StillRunning},
		"past its time":     {func(*actions.Input) {}, "migrate", actions.DoneInit},
		"before the others": {func(in *actions.Input) { in.Status.Containers = in.Status.Containers[1:2] }, "migrate", actions.InitPassed},
		"starting": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].StartupProbe = &v1.Probe{}
			in.Probes = nil
		}, "proxy", actions.StillStarting},
		"after the others":       {func(in *actions.Input) { in.Status.Containers = nil }, "proxy", actions.WaitsForInit},
		"after initialization":   {func(in *actions.Input) { in.Status.Containers = nil }, "web", actions.WaitsForInit},
		"in a new sandbox":       {func(in *actions.Input) { in.Status = nil }, "web", actions.WaitsForInit},
		"removed with the rest":  {func(in *actions.Input) { in.RestartAll = true }, "web", actions.RestartAllContainers},
		"after the rest is gone": {func(in *actions.Input) { in.RestartAll, in.Status.Containers = true, nil }, "web", actions.WaitsForReset},
		"stopped with the pod": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
		}, "web", actions.EndsWithPod},
		"its own end": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "web").State = runtime.ContainerExited
		}, "web", actions.DoneSucceeded},
		"an end that is not the last": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "web").State = runtime.ContainerExited
		}, "web", actions.EndsWithPod},
		"debugged until the pod ended": {func(in *actions.Input) {
			debug(in, runtime.ContainerExited)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
		}, "debug", actions.EndsWithPod},
		"to be debugged when the rest is gone": {func(in *actions.Input) {
			debug(in, runtime.ContainerExited)
			in.Status.Containers, in.RestartAll = in.Status.Containers[:len(in.Status.Containers)-1], true
		}, "debug", actions.WaitsForReset},
		"in another sandbox": {func(in *actions.Input) { in.Status.Sandboxes[0].State = runtime.SandboxNotReady }, "web", actions.WaitsForInit},
		"to be debugged in another sandbox": {func(in *actions.Input) {
			debug(in, runtime.ContainerRunning)
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
		}, "debug", actions.WaitsForSandbox},
		"done before the sandbox was lost": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, v1.Container{Name: "other"})
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "web").State = runtime.ContainerExited
		}, "web", actions.DoneSucceeded},
		"initialized before the sandbox was lost": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyOnFailure
			in.Pod.Spec.InitContainers[1].RestartPolicy = nil
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			container(in, "proxy").State = runtime.ContainerExited
		}, "proxy", actions.WaitsForInit},
		"a sidecar of a pod that has had its run": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.Containers = in.Pod.Spec.Containers[:1]
			container(in, "web").State, container(in, "proxy").State = runtime.ContainerExited, runtime.ContainerExited
		}, "proxy", actions.EndsWithPod},
		"held up with the pod": {func(in *actions.Input) {
			in.Status.Sandboxes[0].State = runtime.SandboxNotReady
			in.Blocked = actions.Hold{Reason: actions.NetworkNotReady}
		}, "web", actions.NetworkNotReady},
		"running, as the pod has had its run": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.Containers = in.Pod.Spec.Containers[:1]
			container(in, "web").State = runtime.ContainerExited
		}, "proxy", actions.StillRunning},
		"after a sidecar that starts": {func(in *actions.Input) {
			in.Pod.Spec.InitContainers[1].StartupProbe = &v1.Probe{}
			in.Status.Containers = in.Status.Containers[:2]
		}, "web", actions.WaitsForInit},
		"an init container of an unknown state, which runs once": {func(in *actions.Input) {
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Status.Containers = in.Status.Containers[:1]
			in.Status.Containers[0].State = runtime.ContainerUnknown
		}, "migrate", actions.ContainerStateUnknown},
		"to be debugged when the pod has had its run": {func(in *actions.Input) {
			debug(in, runtime.ContainerCreated)
			in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
			in.Pod.Spec.Containers = in.Pod.Spec.Containers[:1]
			in.Status.Containers = in.Status.Containers[:len(in.Status.Containers)-1]
			container(in, "web").State = runtime.ContainerExited
		}, "debug", actions.EndsWithPod},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := actions.Why(settledWith(c.change), c.of); !ok || got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
