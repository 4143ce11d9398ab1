package actions_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// exhaustHere is how long pods are enumerated unless PODSYNC_EXHAUST sets it.
const exhaustHere = 3 * time.Second

// exhaustTime returns the duration in PODSYNC_EXHAUST, zero for no limit.
func exhaustTime(t *testing.T) time.Duration {
	s := os.Getenv("PODSYNC_EXHAUST")
	if s == "" {
		return exhaustHere
	}
	if s == "all" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		t.Fatalf("PODSYNC_EXHAUST is %q, want a duration or all", s)
	}
	return d
}

// odometer enumerates all sequences of choices: it makes each choice of a number below n in every way, and each round has
// the next sequence.
type odometer struct {
	at, of []int
	next   int
}

func (o *odometer) draw(n int) int {
	if o.next == len(o.at) {
		o.at, o.of = append(o.at, 0), append(o.of, n)
	}
	o.next++
	return o.at[o.next-1]
}

// turn advances to the next round, and reports whether there is one.
func (o *odometer) turn() bool {
	o.next = 0
	for i := len(o.at) - 1; i >= 0; i-- {
		if o.at[i]++; o.at[i] < o.of[i] {
			return true
		}
		o.at, o.of = o.at[:i], o.of[:i]
	}
	return false
}

// TestEveryPod judges every pod of at most one init container, one sidecar and two regular containers, in each combination
// of restart policies, states, hashes, probe results and sandboxes, with PODSYNC_EXHAUST=all. Otherwise it judges some of
// these pods at random, for a limited time.
func TestEveryPod(t *testing.T) {
	limit, begin := exhaustTime(t), time.Now()
	judged := 0
	judge := func(draw func(int) int) {
		m := everyPod(draw)
		plan, before := actions.Compute(m.input()), *copyStatus(m.status)
		judged++
		if err := judgePod(m, plan); err != nil {
			m.status = &before
			t.Fatalf("pod %d: %v\n%splan:\n%v", judged, err, describe(m), plan)
		}
	}
	if limit > 0 {
		for r := rand.New(rand.NewPCG(uint64(begin.UnixNano()), 1)); time.Since(begin) < limit; {
			judge(r.IntN)
		}
		t.Logf("%d pods drawn and judged in %v", judged, limit)
		return
	}
	var o odometer
	for more := true; more; more = o.turn() {
		judge(o.draw)
	}
	t.Logf("all %d pods judged in %v", judged, time.Since(begin).Round(time.Second/10))
}

// everyPod returns a pod and its status in a runtime, according to choices.
func everyPod(draw func(int) int) *model {
	m := newModel(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u"}})
	m.pod.Spec.RestartPolicy = []v1.RestartPolicy{v1.RestartPolicyAlways, v1.RestartPolicyOnFailure, v1.RestartPolicyNever}[draw(3)]
	always, never := v1.ContainerRestartPolicyAlways, v1.ContainerRestartPolicyNever
	for _, name := range [][]string{{}, {"s"}, {"i"}, {"s", "i"}}[draw(4)] {
		c := v1.Container{Name: name, Image: "img"}
		if name == "s" {
			c.RestartPolicy, c.StartupProbe, c.LivenessProbe = &always, &v1.Probe{}, &v1.Probe{}
		}
		m.pod.Spec.InitContainers = append(m.pod.Spec.InitContainers, c)
	}
	for _, name := range []string{"a", "b"}[:1+draw(2)] {
		c := v1.Container{Name: name, Image: "img", LivenessProbe: &v1.Probe{}}
		if name == "a" {
			c.RestartPolicy = []*v1.ContainerRestartPolicy{nil, &never, &always}[draw(3)]
		}
		m.pod.Spec.Containers = append(m.pod.Spec.Containers, c)
	}
	everySandbox(m, draw)
	m.complete, m.restartAll = draw(2) == 1, draw(2) == 1
	for _, spec := range m.specs() {
		everyState(m, spec, draw)
	}
	return m
}

// everySandbox adds no sandbox, or one in each state, or an earlier one, too.
func everySandbox(m *model, draw func(int) int) {
	shape := draw(6)
	if shape == 0 {
		return
	}
	sb := runtime.SandboxStatus{ID: m.id("s"), State: runtime.SandboxReady, Network: &runtime.SandboxNetwork{IPs: []string{"10.0.0.1"}}}
	switch shape {
	case 2:
		sb.State = runtime.SandboxNotReady
	case 3:
		sb.Network = &runtime.SandboxNetwork{}
	case 4, 5: // it follows one that has stopped, or that has not
		m.status.Sandboxes = append(m.status.Sandboxes, runtime.SandboxStatus{
			ID: m.id("s"), State: []runtime.SandboxState{runtime.SandboxNotReady, runtime.SandboxReady}[shape-4], Network: sb.Network,
		})
		sb.ID, sb.Attempt = m.id("s"), 1
	}
	m.status.Sandboxes = append(m.status.Sandboxes, sb)
}

// everyState adds a container to the status: none, or an instance in each state.
func everyState(m *model, spec *v1.Container, draw func(int) int) {
	shape := draw(10)
	if shape == 0 {
		return
	}
	c := runtime.ContainerStatus{ID: runtime.ContainerID{Type: "test", ID: m.id("c")}, Name: spec.Name, SpecHash: runtime.HashContainer(spec)}
	if n := len(m.status.Sandboxes); n > 0 {
		c.SandboxID = m.status.Sandboxes[n-1].ID
	}
	probes := actions.ProbeResults{Liveness: actions.ProbeSuccess, Startup: actions.ProbeSuccess}
	switch shape {
	case 1:
		c.State = runtime.ContainerCreated
	case 2, 3, 4, 5:
		c.State = runtime.ContainerRunning
		switch shape {
		case 3:
			c.SpecHash++
		case 4:
			probes.Liveness = actions.ProbeFailure
		case 5:
			probes.Startup = actions.ProbePending
		}
	case 6, 7:
		c.State, c.ExitCode = runtime.ContainerExited, int32(shape-6)
	case 8:
		c.State = runtime.ContainerUnknown
	case 9: // an instance of an earlier sandbox
		c.State, c.SandboxID = runtime.ContainerExited, "earlier"
	}
	m.probes[c.ID] = probes
	m.status.Containers = append(m.status.Containers, c)
}

// judgePod checks the properties of every plan, and that carrying out plan after plan settles the pod on an ideal runtime.
// The runtime reports steps that no real one could carry out.
func judgePod(m *model, plan actions.Plan) error {
	in := m.input()
	for _, check := range []func(actions.Input, actions.Plan) error{startsNoneKilled, startsNoneRunning, startsNoneEnded, startsInOrder} {
		if err := check(in, plan); err != nil {
			return err
		}
	}
	_, err := m.run(10, nil)
	return err
}

func startsOf(plan actions.Plan, name string) bool {
	return slices.ContainsFunc(plan.Start, func(s actions.StartStep) bool { return s.Container.Name == name })
}

// startsNoneKilled checks that a plan starts a container that it kills only if the kill requests
// a restart, and that it starts none twice.
func startsNoneKilled(_ actions.Input, plan actions.Plan) error {
	for _, k := range plan.Kill {
		if k.Restart != startsOf(plan, k.Container.Name) {
			return fmt.Errorf("%v is killed, to be started again: %v", k.Container, k.Restart)
		}
	}
	for i, s := range plan.Start {
		if slices.ContainsFunc(plan.Start[:i], func(o actions.StartStep) bool { return o.Container == s.Container }) {
			return fmt.Errorf("%v is started twice", s.Container)
		}
	}
	return nil
}

// startsNoneRunning: each instance that is or may be alive is killed, cleared or reset before
// another of its name is started.
func startsNoneRunning(in actions.Input, plan actions.Plan) error {
	for _, c := range in.Status.Containers {
		gone := plan.KillPod || slices.ContainsFunc(plan.Kill, func(k actions.KillStep) bool { return k.ID == c.ID }) ||
			slices.ContainsFunc(plan.Clear, func(k actions.ClearStep) bool { return k.ID == c.ID }) ||
			slices.ContainsFunc(plan.Reset, func(k actions.ResetStep) bool { return k.ID == c.ID })
		if c.Live() && startsOf(plan, c.Name) && !gone {
			return fmt.Errorf("%s is started beside %v, which is %v", c.Name, c.ID, c.State)
		}
	}
	return nil
}

// startsNoneEnded: a regular container that may not restart and has ended in the present sandbox
// is not started.
func startsNoneEnded(in actions.Input, plan actions.Plan) error {
	latest := in.Status.LatestSandbox()
	for i := range in.Pod.Spec.Containers {
		spec := &in.Pod.Spec.Containers[i]
		c := in.Status.Latest(spec.Name)
		if c == nil || c.State != runtime.ContainerExited || !c.In(latest) || in.RestartAll || plan.Sandbox.Create {
			continue
		}
		if again, _ := actions.RestartsAfter(in.Pod, spec, c.ExitCode); !again && startsOf(plan, spec.Name) {
			return fmt.Errorf("%s has ended with %d and is started", spec.Name, c.ExitCode)
		}
	}
	return nil
}

// startsInOrder: init containers start in the order of the spec before regular ones, and nothing starts after an init
// container that must end first.
func startsInOrder(in actions.Input, plan actions.Plan) error {
	place := map[actions.ContainerKind]int{actions.EphemeralContainer: 0, actions.InitContainer: 1, actions.RegularContainer: 2}
	for i, s := range plan.Start {
		if i == 0 {
			continue
		}
		last := plan.Start[i-1].Container
		if cmp.Or(place[s.Container.Kind]-place[last.Kind], s.Container.Index-last.Index) <= 0 {
			return fmt.Errorf("%v is started after %v", s.Container, last)
		}
		if last.Kind == actions.InitContainer && !runtime.IsSidecar(last.Spec(in.Pod)) {
			return fmt.Errorf("%v is started before %v has ended", s.Container, last)
		}
	}
	return nil
}
