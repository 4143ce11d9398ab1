package status_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// draws makes choices from the bytes of a fuzz input, and returns 0 when they are used up.
type draws []byte

func (d *draws) pick(n int) int {
	if len(*d) == 0 {
		return 0
	}
	b := int((*d)[0])
	*d = (*d)[1:]
	return b % n
}

func (d *draws) chance(oneIn int) bool { return d.pick(oneIn) == 1 }

// drawPod returns a random pod, even one that an API server would reject.
func drawPod(d *draws) *v1.Pod {
	p := pod([]v1.RestartPolicy{"Always", "Never", "OnFailure", ""}[d.pick(4)])
	container := func(name string) v1.Container {
		c := v1.Container{Name: name}
		if d.chance(3) {
			c.RestartPolicy = &[]v1.ContainerRestartPolicy{"Always", "Never", "OnFailure"}[d.pick(3)]
		}
		if d.chance(3) {
			c.StartupProbe = &v1.Probe{}
		}
		if d.chance(3) {
			c.ReadinessProbe = &v1.Probe{}
		}
		return c
	}
	for i := range d.pick(3) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, container(fmt.Sprint("i", i)))
	}
	for i := range d.pick(4) {
		p.Spec.Containers = append(p.Spec.Containers, container(fmt.Sprint("c", 2-i)))
	}
	if d.chance(4) {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "e0"}}}
	}
	if d.chance(4) {
		p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "gate"}}
	}
	p.Spec.HostNetwork = d.chance(8)
	return p
}

// drawStep returns the next random observation.
func drawStep(d *draws, p *v1.Pod, at int) apistatus.Input {
	in := apistatus.Input{Pod: p, Now: noon.Add(time.Duration(at) * time.Second), Probes: map[runtime.ContainerID]actions.ProbeResults{}}
	if d.chance(6) {
		p.DeletionTimestamp = &metav1.Time{Time: noon}
	}
	in.Terminal, in.Ended, in.StartsOver = d.chance(6), d.chance(12), d.chance(8)
	if d.chance(3) {
		p.Status.Conditions = []v1.PodCondition{{Type: "gate", Status: []v1.ConditionStatus{"True", "False"}[d.pick(2)]}}
	}
	if d.chance(12) {
		in.Evicted = &apistatus.Problem{Reason: "Evicted"}
	}
	if d.chance(8) {
		in.Blocked = &apistatus.Problem{Reason: "NodeAffinity"}
	}
	if d.chance(2) {
		in.HostIPs = [][]string{{"192.0.2.1"}, {"2001:db8::1", "192.0.2.1"}, {"no address"}}[d.pick(3)]
	}
	in.StartErrors = map[string]apistatus.Problem{}
	for _, name := range []string{"i0", "i1", "c0", "c1", "c2", "e0"} {
		if d.chance(5) {
			in.StartErrors[name] = apistatus.Problem{Reason: "CrashLoopBackOff"}
		}
	}
	if !d.chance(10) {
		in.Status = drawStatus(d, in.Probes)
	}
	return in
}

// drawStatus returns a runtime status. The runtime may have lost anything and may report anything, even another exit
// code for the same container.
func drawStatus(d *draws, probes map[runtime.ContainerID]actions.ProbeResults) *runtime.PodStatus {
	s := &runtime.PodStatus{}
	for i := range d.pick(3) {
		sb := runtime.SandboxStatus{ID: fmt.Sprint("s", i), Attempt: uint32(i), State: runtime.SandboxState(d.pick(2))}
		if d.chance(2) {
			sb.Network = &runtime.SandboxNetwork{IPs: [][]string{{"10.0.0.7"}, nil, {"fd00::7", "10.0.0.8"}}[d.pick(3)]}
		}
		s.Sandboxes = append(s.Sandboxes, sb)
	}
	for _, name := range []string{"i0", "i1", "c0", "c1", "c2", "e0", "stranger"} {
		for j := range d.pick(3) {
			attempt := uint32(d.pick(3))
			c := runtime.ContainerStatus{
				Name: name, Attempt: attempt, ID: containerID(fmt.Sprint(name, "-", attempt, "-", j)), SandboxID: []string{"s0", "s1", ""}[d.pick(3)],
				State: runtime.ContainerState(d.pick(4)), ExitCode: int32(d.pick(3)), Reason: "Error",
			}
			s.Containers = append(s.Containers, c)
			if d.chance(2) {
				probes[c.ID] = actions.ProbeResults{Startup: actions.ProbeResult(d.pick(4)), Readiness: actions.ProbeResult(d.pick(4))}
			}
		}
	}
	return s
}

// FuzzCompute computes a sequence of statuses of a pod, each with the previous one as its input,
// and checks the invariants of any such sequence.
func FuzzCompute(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d := draws(data)
		p := drawPod(&d)
		h := history{T: t, ends: map[string]int32{}}
		for at := 0; at < 8 && len(d) > 0; at++ {
			again := d
			in := drawStep(&d, p.DeepCopy(), at)
			same := drawStep(&again, p.DeepCopy(), at)
			in.Previous, same.Previous = h.last, h.last.DeepCopy()
			got := apistatus.GeneratePodStatus(in)
			if !reflect.DeepEqual(in, same) {
				t.Fatalf("the input was written to")
			}
			if !reflect.DeepEqual(got, apistatus.GeneratePodStatus(same)) {
				t.Fatalf("two answers for one input")
			}
			published := apistatus.Merge(h.last, got)
			if !reflect.DeepEqual(in, same) {
				t.Fatalf("Hold wrote to the last status")
			}
			h.check(in, &published)
			h.last = &published
		}
	})
}

// history has a pod's reported statuses.
type history struct {
	*testing.T
	last *v1.PodStatus
	// ends are the exit codes that were reported first, by container ID.
	ends map[string]int32
}

func (h *history) check(in apistatus.Input, s *v1.PodStatus) {
	h.checkConditions(in, s)
	h.checkLists(in, s)
	if h.last != nil {
		h.checkStep(s)
	}
	if isEnd(s.Phase) && (h.last == nil || !isEnd(h.last.Phase)) {
		h.checkNothingRuns(s)
	}
}

// checkNothingRuns checks T1 at the moment when the pod ends.
func (h *history) checkNothingRuns(s *v1.PodStatus) {
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for _, k := range list {
			if k.State.Running != nil {
				h.Errorf("the pod ended while %s runs", k.Name)
			}
		}
	}
}

// checkStep checks the step from the last report: T1 and T3. checkEnd checks the ends of pods.
func (h *history) checkStep(s *v1.PodStatus) {
	rank := map[v1.PodPhase]int{v1.PodPending: 0, v1.PodRunning: 1, v1.PodSucceeded: 2, v1.PodFailed: 2}
	from, to := h.last.Phase, s.Phase
	if rank[to] < rank[from] || rank[from] == 2 && from != to {
		h.Errorf("T1: phase %s after %s", to, from)
	}
	if len(h.last.PodIPs) > 0 && len(s.PodIPs) == 0 || h.last.HostIP != "" && s.HostIP == "" {
		h.Errorf("T3: addresses %v %q vanished", h.last.PodIPs, h.last.HostIP)
	}
	if !s.StartTime.Equal(h.last.StartTime) {
		h.Errorf("the start time changed")
	}
}

func (h *history) checkConditions(in apistatus.Input, s *v1.PodStatus) {
	seen := map[v1.PodConditionType]bool{}
	for _, c := range s.Conditions {
		if seen[c.Type] {
			h.Errorf("two conditions %s", c.Type)
		}
		seen[c.Type] = true
		if h.last == nil || c.Type == "gate" {
			continue
		}
		for _, old := range h.last.Conditions {
			if same := old.LastTransitionTime.Equal(&c.LastTransitionTime); old.Type == c.Type && same != (old.Status == c.Status) {
				h.Errorf("condition %s went from %s to %s, transition time changed: %v", c.Type, old.Status, c.Status, !same)
			}
		}
	}
	if in.Ended {
		h.checkEnded(in, s)
	}
	if ready := seen[v1.PodReady]; !ready {
		h.Errorf("no condition Ready")
	}
	if isEnd(s.Phase) && in.Evicted == nil && len(in.Pod.Spec.InitContainers) == 0 && (h.last == nil || !isEnd(h.last.Phase)) {
		h.checkEnd(in)
	}
}

// checkEnded checks that no regular container of a pod that has ended waits, unless the pod
// ended before its init containers had succeeded and the container has never run.
func (h *history) checkEnded(in apistatus.Input, s *v1.PodStatus) {
	for _, k := range s.ContainerStatuses {
		if k.State.Waiting != nil && (k.LastTerminationState.Terminated != nil || len(in.Pod.Spec.InitContainers) == 0 || h.hadTurn(in)) {
			h.Errorf("%s waits in a pod that has ended", k.Name)
		}
	}
}

// hadTurn reports whether the pod is initialized: a regular container was created in its latest sandbox and no
// older instance of it runs, or the last report shows it.
func (h *history) hadTurn(in apistatus.Input) bool {
	for i := range in.Pod.Spec.Containers {
		c := in.Status.Latest(in.Pod.Spec.Containers[i].Name)
		for j := 0; c != nil && j < len(in.Status.Containers); j++ {
			if o := &in.Status.Containers[j]; o.Name == c.Name && o.State == runtime.ContainerRunning && c.State != runtime.ContainerRunning {
				c = o
			}
		}
		if c != nil && c.In(in.Status.LatestSandbox()) {
			return true
		}
	}
	return h.last != nil && slices.ContainsFunc(h.last.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodInitialized && c.Status == v1.ConditionTrue })
}

func isEnd(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// checkEnd checks C8 at the moment when the pod ends.
func (h *history) checkEnd(in apistatus.Input) {
	for i := range in.Pod.Spec.Containers {
		if c := in.Status.Latest(in.Pod.Spec.Containers[i].Name); c != nil && (c.State == runtime.ContainerCreated && !in.Ended || c.State == runtime.ContainerRunning) {
			h.Errorf("C8: the pod ended while %s is %v", c.Name, c.State)
		}
	}
}

func (h *history) checkLists(in apistatus.Input, s *v1.PodStatus) {
	spec := &in.Pod.Spec
	if len(s.InitContainerStatuses) != len(spec.InitContainers) || len(s.ContainerStatuses) != len(spec.Containers) ||
		len(s.EphemeralContainerStatuses) != len(spec.EphemeralContainers) {
		h.Fatalf("not one status a container: %+v", s)
	}
	var before v1.PodStatus
	if h.last != nil {
		before = *h.last
	}
	h.checkContainers(in, s.InitContainerStatuses, before.InitContainerStatuses)
	h.checkContainers(in, s.ContainerStatuses, before.ContainerStatuses)
	h.checkContainers(in, s.EphemeralContainerStatuses, before.EphemeralContainerStatuses)
}

func (h *history) checkContainers(in apistatus.Input, list, before []v1.ContainerStatus) {
	for i := range list {
		k := &list[i]
		if i < len(before) && (before[i].Name != k.Name || before[i].RestartCount > k.RestartCount) {
			h.Errorf("C3: %s restarted %d times after %s %d", k.Name, k.RestartCount, before[i].Name, before[i].RestartCount)
		}
		if n := states(k.State); n != 1 {
			h.Errorf("%s has %d states", k.Name, n)
		}
		if k.Ready && k.Started != nil && !*k.Started && k.State.Running != nil {
			h.Errorf("%s is ready and not started", k.Name)
		}
		h.checkEndOf(k, k.State.Terminated)
		h.checkEndOf(k, k.LastTerminationState.Terminated)
		h.checkRunning(in, k)
	}
}

func states(s v1.ContainerState) (n int) {
	for _, is := range []bool{s.Waiting != nil, s.Running != nil, s.Terminated != nil} {
		if is {
			n++
		}
	}
	return n
}

// checkEndOf checks T2.
func (h *history) checkEndOf(k *v1.ContainerStatus, end *v1.ContainerStateTerminated) {
	if end == nil || end.ContainerID == "" {
		return
	}
	if code, seen := h.ends[end.ContainerID]; seen && code != end.ExitCode && h.reported(end.ContainerID) {
		h.Errorf("T2: %s ended with %d, reported before with %d", end.ContainerID, end.ExitCode, code)
	}
	h.ends[end.ContainerID] = end.ExitCode
}

// reported reports whether the last report has that instance's exit. Exits that the last report no longer has are
// forgotten.
func (h *history) reported(id string) bool {
	if h.last == nil {
		return false
	}
	for _, list := range [][]v1.ContainerStatus{h.last.InitContainerStatuses, h.last.ContainerStatuses, h.last.EphemeralContainerStatuses} {
		for _, k := range list {
			for _, end := range []*v1.ContainerStateTerminated{k.State.Terminated, k.LastTerminationState.Terminated} {
				if end != nil && end.ContainerID == id {
					return true
				}
			}
		}
	}
	return false
}

// checkRunning checks T6.
func (h *history) checkRunning(in apistatus.Input, k *v1.ContainerStatus) {
	if in.Status == nil {
		return
	}
	for _, c := range in.Status.Containers {
		if c.Name == k.Name && c.State == runtime.ContainerRunning && k.State.Running == nil {
			h.Errorf("T6: %s runs and is reported as %+v", c.ID, k.State)
		}
	}
}
