package actions_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

func TestBadInputIsRefusedWithAClearError(t *testing.T) {
	named := func(names ...string) []v1.Container {
		var cs []v1.Container
		for _, n := range names {
			cs = append(cs, v1.Container{Name: n, Image: "img"})
		}
		return cs
	}
	restarting := func(policy *v1.ContainerRestartPolicy) []v1.Container {
		cs := named("a", "d")
		if cs[1].RestartPolicy = policy; policy == nil {
			cs[1].RestartPolicyRules = []v1.ContainerRestartRule{{ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Values: []int32{1}}}}
		}
		return cs
	}
	ephemeral := v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "a"}}
	for want, pod := range map[string]*v1.Pod{
		"input: Pod is required":                                                              nil,
		"pod ns/p: spec.containers[1] has no name":                                            {Spec: v1.PodSpec{Containers: named("a", "")}},
		`spec.containers[0] and spec.containers[2] are both named "a"`:                        {Spec: v1.PodSpec{Containers: named("a", "b", "a")}},
		`spec.initContainers[1] and spec.containers[0] are both named "b"`:                    {Spec: v1.PodSpec{InitContainers: named("a", "b"), Containers: named("b")}},
		`spec.containers[0] and spec.ephemeralContainers[0] are both named "a"`:               {Spec: v1.PodSpec{Containers: named("a"), EphemeralContainers: []v1.EphemeralContainer{ephemeral}}},
		"pod ns/p: spec.initContainers[0] has no name":                                        {Spec: v1.PodSpec{InitContainers: named("")}},
		`input: pod ns/p: spec.restartPolicy is "sometimes", want Always, OnFailure or Never`: {Spec: v1.PodSpec{RestartPolicy: "sometimes", Containers: named("a")}},
		`spec.containers[1].restartPolicy is "", want Always, OnFailure or Never`:             {Spec: v1.PodSpec{Containers: restarting(new(v1.ContainerRestartPolicy))}},
		`spec.initContainers[1].restartPolicy is "always", want`:                              {Spec: v1.PodSpec{InitContainers: restarting(new(v1.ContainerRestartPolicy("always")))}},
		`spec.containers[1].restartPolicyRules[0].exitCodes.operator is "", want In or NotIn`: {Spec: v1.PodSpec{Containers: restarting(nil)}},
		`spec.containers[19] and spec.containers[20] are both named "c"`:                      {Spec: v1.PodSpec{Containers: append(named(manyNames(19)...), named("c", "c")...)}},
	} {
		if pod != nil {
			pod.Name, pod.Namespace = "p", "ns"
		}
		in := actions.Input{Pod: pod}
		if err := in.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate: %v, want %q in it", err, want)
		}
		plan := actions.Compute(in)
		if plan.Invalid == nil || plan.Invalid.Error() != in.Validate().Error() || !strings.Contains(plan.String(), want) {
			t.Errorf("%s: the plan is\n%v, invalid as %v", want, plan, plan.Invalid)
		}
		if plan.Invalid = nil; !reflect.DeepEqual(plan, actions.Plan{}) {
			t.Errorf("%s: the plan has\n%v", want, plan)
		}
		if words := actions.Explain(in, "a"); !strings.Contains(words, want) {
			t.Errorf("Explain says %q, want %q in it", words, want)
		}
	}
}

func manyNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	return names
}

func TestZeroPlanHasNothingToDo(t *testing.T) {
	var p actions.Plan
	if !p.NoOp() || p.TerminatesPod() || p.String() != "nothing to do\n" {
		t.Errorf("the zero plan: quiet %v, ends %v, %q", p.NoOp(), p.TerminatesPod(), p)
	}
}

func TestPodWithoutContainers(t *testing.T) {
	in := actions.Input{Pod: &v1.Pod{}}
	if plan := actions.Compute(in); !plan.TerminatesPod() {
		t.Errorf("a pod without containers is not stopped:\n%v", plan)
	}
}

func TestRestartAllWithoutAnythingInTheRuntime(t *testing.T) {
	plan := actions.Compute(actions.Input{Pod: shop(), RestartAll: true})
	if !plan.Sandbox.Create || len(plan.Start) != 0 {
		t.Errorf("the plan is\n%v, want a sandbox and no start yet", plan)
	}
}

// A container that the pod does not have is left alone, and Explain reports that.
func TestContainersThePodDoesNotHave(t *testing.T) {
	in := settled()
	in.Status.Containers = append(in.Status.Containers, runtime.ContainerStatus{Name: "stranger", State: runtime.ContainerRunning, SandboxID: "s0"})
	if plan := actions.Compute(in); !plan.NoOp() {
		t.Errorf("the plan is\n%v, want nothing to do", plan)
	}
	for name, want := range map[string]string{
		"stranger": "is not in the pod's spec",
		"nobody":   "no container named",
	} {
		if words := actions.Explain(in, name); !strings.Contains(words, want) {
			t.Errorf("Explain says %q, want %q in it", words, want)
		}
	}
}

func TestPolicyDefaultsToAlways(t *testing.T) {
	pod := shop()
	pod.Spec.RestartPolicy = ""
	if again, _ := actions.AfterExit(pod, &pod.Spec.Containers[0], 0); !again {
		t.Error("a container of a pod without a restart policy does not run again")
	}
}

// A restart rule without exit codes is no error, and matches nothing.
func TestRuleWithoutExitCodes(t *testing.T) {
	in := settled()
	in.Pod.Spec.RestartPolicy = v1.RestartPolicyNever
	in.Pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestart}}
	in.Status.Latest("web").State = runtime.ContainerExited
	if plan := actions.Compute(in); plan.Invalid != nil || !plan.NoOp() {
		t.Errorf("the plan is\n%v, want nothing to do", plan)
	}
}

// Rules that the API would refuse match nothing.
func TestUnusableRestartRules(t *testing.T) {
	pod := shop()
	c := &pod.Spec.Containers[0]
	c.RestartPolicyRules = []v1.ContainerRestartRule{
		{Action: v1.ContainerRestartRuleActionRestart},
		{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "Near", Values: []int32{0}}},
	}
	if again, why := actions.AfterExit(pod, c, 0); again || why != actions.DoneSucceeded {
		t.Errorf("AfterExit = %v, %v, want false, %v", again, why, actions.DoneSucceeded)
	}
}

func TestRestartAllRequested(t *testing.T) {
	rules := []v1.ContainerRestartRule{
		{Action: v1.ContainerRestartRuleActionRestart, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{7}}},
		{Action: v1.ContainerRestartRuleActionRestartAllContainers, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: "In", Values: []int32{7, 42}}},
	}
	for name, c := range map[string]struct {
		state runtime.ContainerState
		code  int32
		want  bool
	}{
		"the code":               {runtime.ContainerExited, 42, true},
		"another code":           {runtime.ContainerExited, 1, false},
		"an earlier rule's code": {runtime.ContainerExited, 7, false},
		"still running":          {runtime.ContainerRunning, 42, false},
	} {
		for _, kind := range []actions.ContainerKind{actions.RegularContainer, actions.InitContainer} {
			pod := shop()
			spec := &pod.Spec.Containers[0]
			if kind == actions.InitContainer {
				spec = &pod.Spec.InitContainers[0]
			}
			spec.RestartPolicyRules = rules
			status := &runtime.PodStatus{Containers: []runtime.ContainerStatus{{Name: spec.Name, State: c.state, ExitCode: c.code}}}
			by, got := actions.RestartAllRequested(pod, status)
			if got != c.want || got && (by.Name != spec.Name || by.Kind != kind) {
				t.Errorf("%s, %v: %v by %v, want %v by this container", name, kind, got, by, c.want)
			}
		}
	}
	if _, got := actions.RestartAllRequested(nil, nil); got {
		t.Error("requested by a pod that is not there")
	}
}

// Every reason has a text of its own, and so has an unknown reason.
func TestReasonsHaveWords(t *testing.T) {
	seen := map[string]actions.Reason{}
	for r := actions.ReasonNone; r <= actions.EndsWithPod; r++ {
		words := r.String()
		if other, twice := seen[words]; words == "" || twice {
			t.Errorf("reason %d says %q, like reason %d", r, words, other)
		}
		seen[words] = r
	}
	if words := actions.Reason(255).String(); words == "" {
		t.Error("a reason that does not exist has no words")
	}
}

func TestSettledPodNeedsNoMemory(t *testing.T) {
	in := settled()
	if n := testing.AllocsPerRun(100, func() { actions.Compute(in) }); n != 0 {
		t.Errorf("%v allocations for a settled pod, want none", n)
	}
}

// The budget: two allocations a decision, on average over the recorded pods.
func TestMemoryOfADecision(t *testing.T) {
	inputs := recordedInputs(t)
	n := testing.AllocsPerRun(1, func() {
		for _, in := range inputs {
			actions.Compute(in)
		}
	})
	if mean := n / float64(len(inputs)); mean > 2 {
		t.Errorf("%.2f allocations a decision, want 2 at most", mean)
	} else {
		t.Logf("%.2f allocations a decision", mean)
	}
}
