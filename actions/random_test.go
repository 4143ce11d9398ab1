package actions_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// FuzzCompute derives a pod in some state from the bytes, and checks the properties of Compute that hold for all
// pods.
func FuzzCompute(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Add([]byte("an init container, a sidecar and an app, all of an earlier sandbox"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		checkProperties(t, randomModel(func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}))
	})
}

func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		checkProperties(t, randomModel(r.IntN))
		if t.Failed() {
			return
		}
	}
}

// The same properties hold for the pods of the recorded cases.
func TestPropertiesOfRecordedPods(t *testing.T) {
	for _, in := range recordedInputs(t) {
		checkProperties(t, &model{pod: in.Pod, status: in.Status, probes: in.Probes, restartAll: in.RestartAll})
	}
}

func checkProperties(t *testing.T, m *model) {
	t.Helper()
	before := describe(m)
	pod, status := m.pod.DeepCopy(), copyStatus(m.status)
	plan := actions.Compute(m.input())
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n%splan:\n%v", fmt.Sprintf(format, args...), before, plan)
	}
	if again := actions.Compute(m.input()); !reflect.DeepEqual(plan, again) || plan.String() != again.String() {
		fail("computed again it is another plan:\n%v", again)
	}
	if plan.Sandbox.Create && !m.restartAll && len(plan.Start) == 0 {
		fail("a new sandbox in which nothing runs")
	}
	if plan.NoOp() != strings.Contains(plan.String(), "nothing to do\n") {
		fail("the plan does not say whether there is something to do")
	}
	if plan.TerminatesPod() && len(plan.Clear)+len(plan.Start)+len(plan.Resize) > 0 {
		fail("the pod ends, and more follows")
	}
	for _, c := range m.specs() {
		checkWords(m.input(), plan, c.Name, fail)
	}
	if !reflect.DeepEqual(pod, m.pod) || !reflect.DeepEqual(status, m.status) {
		fail("the input was written to")
	}
	if m.pod.DeletionTimestamp != nil {
		return // such a pod is stopped, and does not settle
	}
	bound := 10 + 2*len(m.pod.Spec.InitContainers)
	if _, err := m.run(bound, nil); err != nil {
		fail("%v", err)
	}
}

// checkWords checks that the text about a container matches the plan.
func checkWords(in actions.Input, plan actions.Plan, name string, fail func(string, ...any)) {
	why, ok := actions.Why(in, name)
	if !ok || why == actions.ReasonNone {
		fail("the plan has no reason for container %s", name)
	}
	touched, started := false, false
	for _, s := range plan.Start {
		if s.Container.Name == name {
			touched, started = true, true
			if s.Reason != why {
				fail("%s is started because %v, and asked why it is because %v", name, s.Reason, why)
			}
		}
	}
	asked := why >= actions.ContainerMissing && why <= actions.Superseded
	for _, s := range plan.Kill {
		if s.Container.Name == name {
			touched = true
			if s.Restart != started || s.Reason != why {
				fail("%s is killed because %v, to start again: %v; started: %v, because %v", name, s.Reason, s.Restart, started, why)
			}
		}
	}
	for _, s := range plan.Clear {
		touched = touched || s.Container.Name == name
	}
	for _, s := range plan.Reset {
		touched = touched || s.Container.Name == name
	}
	for _, s := range plan.Resize {
		touched = touched || s.Container.Name == name
	}
	for i := range in.Status.Containers {
		c := &in.Status.Containers[i]
		touched = touched || plan.KillPod && c.Name == name && c.Live()
	}
	if asked && !touched {
		fail("%s is left alone because %v", name, why)
	}
	words := actions.Explain(in, name)
	if strings.Contains(words, "is left alone") == touched || !strings.Contains(words, name) || strings.Contains(words, "is started") != started {
		fail("touched: %v, and explained as %q", touched, words)
	}
}

func copyStatus(s *runtime.PodStatus) *runtime.PodStatus {
	c := *s
	c.Sandboxes, c.Containers = slices.Clone(s.Sandboxes), slices.Clone(s.Containers)
	return &c
}

func describe(m *model) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pod: policy %s, deleted %v, host network %v, restart all %v\n",
		m.pod.Spec.RestartPolicy, m.pod.DeletionTimestamp != nil, m.pod.Spec.HostNetwork, m.restartAll)
	for _, c := range m.specs() {
		policy := "-"
		if c.RestartPolicy != nil {
			policy = string(*c.RestartPolicy)
		}
		fmt.Fprintf(&b, "  spec %s: policy %s, rules %v\n", c.Name, policy, c.RestartPolicyRules)
	}
	for _, s := range m.status.Sandboxes {
		fmt.Fprintf(&b, "  sandbox %+v\n", s)
	}
	for _, c := range m.status.Containers {
		fmt.Fprintf(&b, "  container %s %v in %q: %v, attempt %d, exit %d, probes %+v\n",
			c.Name, c.ID, c.SandboxID, c.State, c.Attempt, c.ExitCode, m.probes[c.ID])
	}
	return b.String()
}

// randomModel returns a pod and a possible status in a runtime. draw makes its choices: it returns a number below its
// argument.
func randomModel(draw func(n int) int) *model {
	m := newModel(randomPod(draw))
	m.restartAll = draw(20) == 0
	for attempt := range draw(3) {
		sb := runtime.SandboxStatus{ID: m.id("s"), Attempt: uint32(attempt), State: runtime.SandboxState(draw(2))}
		if (draw(8) == 0) != m.pod.Spec.HostNetwork {
			sb.NetworkMode = runtime.NamespaceNode
		}
		if draw(6) > 0 {
			sb.Network = &runtime.SandboxNetwork{}
			if draw(6) > 0 {
				sb.Network.IPs = []string{"10.0.0.1"}
			}
		}
		m.status.Sandboxes = append(m.status.Sandboxes, sb)
	}
	for _, spec := range m.specs() {
		for attempt := range draw(4) {
			m.status.Containers = append(m.status.Containers, randomContainer(m, spec, uint32(attempt), draw))
		}
	}
	return m
}

func randomContainer(m *model, spec *v1.Container, attempt uint32, draw func(n int) int) runtime.ContainerStatus {
	c := runtime.ContainerStatus{
		ID: runtime.ContainerID{Type: "test", ID: m.id("c")}, Name: spec.Name, Attempt: attempt,
		State: runtime.ContainerState(draw(4)), ExitCode: []int32{0, 1, 42}[draw(3)], SpecHash: runtime.HashContainer(spec),
	}
	if n := len(m.status.Sandboxes); n > 0 && draw(3) > 0 {
		c.SandboxID = m.status.Sandboxes[draw(n)].ID
	}
	if draw(8) == 0 {
		c.SpecHash++
	}
	if draw(4) == 0 {
		c.Resources = &runtime.ContainerResources{CPULimit: int64(draw(2)) * 500}
	}
	m.probes[c.ID] = actions.ProbeResults{Liveness: actions.ProbeResult(draw(4)), Startup: actions.ProbeResult(draw(4))}
	return c
}

func randomPod(draw func(n int) int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}}
	pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[draw(3)]
	pod.Spec.HostNetwork = draw(8) == 0
	if draw(12) == 0 {
		pod.DeletionTimestamp = &metav1.Time{}
	}
	for i := range draw(4) {
		c := randomSpec(fmt.Sprintf("i%d", i), draw)
		if draw(2) == 0 {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy, c.RestartPolicyRules = &always, nil
			if draw(2) == 0 {
				c.StartupProbe, c.LivenessProbe = &v1.Probe{}, &v1.Probe{}
			}
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range 1 + draw(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, randomSpec(fmt.Sprintf("c%d", i), draw))
	}
	for i := range draw(2) {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, v1.EphemeralContainer{
			EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: fmt.Sprintf("e%d", i), Image: "img"},
		})
	}
	return pod
}

func randomSpec(name string, draw func(n int) int) v1.Container {
	c := v1.Container{Name: name, Image: "img"}
	if draw(3) == 0 {
		policy := []v1.ContainerRestartPolicy{"Always", "OnFailure", "Never"}[draw(3)]
		c.RestartPolicy = &policy
	}
	if draw(4) == 0 {
		c.RestartPolicyRules = []v1.ContainerRestartRule{{
			Action: v1.ContainerRestartRuleActionRestart,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
				Operator: []v1.ContainerRestartRuleOnExitCodesOperator{"In", "NotIn"}[draw(2)],
				Values:   []int32{42},
			},
		}}
	}
	if draw(4) == 0 {
		c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m")}
		if draw(2) == 0 {
			c.ResizePolicy = []v1.ContainerResizePolicy{{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer}}
		}
	}
	return c
}
