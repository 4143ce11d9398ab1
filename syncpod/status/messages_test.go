package status_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// All containers of a pod share 12 KiB for their termination messages, and another 12 KiB for those of their last
// states.
func TestMessagesOfAPodAreBounded(t *testing.T) {
	for _, n := range []int{1, 3, 12, 100} {
		in := podWithMessages(n, strings.Repeat("x", 16<<10))
		s := apistatus.GeneratePodStatus(in)
		if now, last := messageBytes(t, s); now != n*(12<<10/n) || last != now {
			t.Errorf("%d containers: messages of %d bytes, and of %d bytes of the last states, want %d of each", n, now, last, n*(12<<10/n))
		}
	}
	in := podWithMessages(5, strings.Repeat("\u00e9", 8<<10))
	if now, _ := messageBytes(t, apistatus.GeneratePodStatus(in)); now != 5*2456 {
		t.Errorf("messages of %d bytes, want %d: half a character is left out", now, 5*2456)
	}
	in = podWithMessages(3, strings.Repeat("x", 4096))
	if now, _ := messageBytes(t, apistatus.GeneratePodStatus(in)); now != 3*4096 {
		t.Errorf("messages of %d bytes, want %d", now, 3*4096)
	}
}

// Messages that were reported earlier count: ephemeral containers that are added later, and messages that only
// an earlier status has, do not make the sum larger.
func TestReportedMessagesAreBounded(t *testing.T) {
	in := podWithMessages(3, strings.Repeat("x", 4096))
	first := apistatus.GeneratePodStatus(in)
	for i := range 9 {
		name := fmt.Sprintf("debug%d", i)
		in.Pod.Spec.EphemeralContainers = append(in.Pod.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: name}})
		c := exited(name, name, 0, 1)
		c.Message = strings.Repeat("y", 4096)
		in.Status.Containers = append(in.Status.Containers, c)
	}
	in.Previous = &first
	if now, last := messageBytes(t, apistatus.GeneratePodStatus(in)); now != 12<<10 || last != 3<<10 {
		t.Errorf("messages of %d bytes, and of %d bytes of the last states, want %d and %d", now, last, 12<<10, 3<<10)
	}
	stored := first.DeepCopy() // another agent, or an edited record, may contain this
	for i := range stored.ContainerStatuses {
		stored.ContainerStatuses[i].State.Terminated.Message = strings.Repeat("z", 16<<10)
		stored.ContainerStatuses[i].LastTerminationState.Terminated.Message = strings.Repeat("z", 16<<10)
	}
	in.Previous = stored
	for name, status := range map[string]*runtime.PodStatus{"the runtime has the containers": in.Status, "the runtime has lost them": nil} {
		in.Status = status
		if now, last := messageBytes(t, apistatus.GeneratePodStatus(in)); now > 12<<10 || last > 12<<10 {
			t.Errorf("%s: messages of %d bytes, and of %d bytes of the last states, want %d at most", name, now, last, 12<<10)
		}
	}
	if got := len(stored.ContainerStatuses[0].State.Terminated.Message); got != 16<<10 {
		t.Errorf("Compute has cut the message of its input to %d bytes", got)
	}
}

// podWithMessages returns an Input with n containers. Each has exited twice with the message.
func podWithMessages(n int, message string) apistatus.Input {
	var names []string
	status := node()
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		for attempt := range uint32(2) {
			c := exited(name, fmt.Sprintf("%s-%d", name, attempt), attempt, 1)
			c.Message = message
			status.Containers = append(status.Containers, c)
		}
	}
	return apistatus.Input{Pod: pod(v1.RestartPolicyNever, names...), Status: status}
}

// messageBytes sums up the messages in a status, of the states and of the last states.
func messageBytes(t *testing.T, s v1.PodStatus) (now, last int) {
	t.Helper()
	length := func(end *v1.ContainerStateTerminated) int {
		if end == nil {
			return 0
		}
		if !utf8.ValidString(end.Message) {
			t.Errorf("a message is cut in a character: %q", end.Message[len(end.Message)-8:])
		}
		return len(end.Message)
	}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			now += length(list[i].State.Terminated)
			last += length(list[i].LastTerminationState.Terminated)
		}
	}
	return now, last
}

// A pod may have as many readiness gates and conditions as fit in an object. They cost no time in proportion to their product,
// and the message about them is bounded.
func TestManyReadinessGates(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0))}
	const name = "gates.example.com/a-name-of-some-length-with-which-all-of-them-begin-%07d"
	for i := range 300_000 {
		in.Pod.Spec.ReadinessGates = append(in.Pod.Spec.ReadinessGates, v1.PodReadinessGate{ConditionType: v1.PodConditionType(fmt.Sprintf(name, i))})
	}
	for i := range 100_000 {
		in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, v1.PodCondition{Type: v1.PodConditionType(fmt.Sprintf(name, 1_000_000+i))})
	}
	done := make(chan v1.PodStatus, 1)
	go func() { done <- apistatus.GeneratePodStatus(in) }()
	select {
	case s := <-done:
		i := slices.IndexFunc(s.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
		if c := s.Conditions[i]; c.Reason != "ReadinessGatesNotReady" || len(c.Message) > 16<<10 {
			t.Errorf("%s with a message of %d bytes", c.Reason, len(c.Message))
		}
	case <-time.After(time.Minute):
		t.Error("a status takes more than a minute")
	}
}

// Groups of an image are in the status of each of its containers. They fit in an object together.
func TestGroupsOfAPodAreBounded(t *testing.T) {
	var names []string
	var all []runtime.ContainerStatus
	for i := range 1024 {
		names = append(names, fmt.Sprintf("c%d", i))
		c := running(names[i], names[i], 0)
		c.User = &runtime.ContainerUser{Groups: make([]int64, 1<<10)}
		all = append(all, c)
	}
	got := 0
	for _, c := range apistatus.GeneratePodStatus(apistatus.Input{Pod: pod(v1.RestartPolicyAlways, names...), Status: node(all...)}).ContainerStatuses {
		got += len(c.User.Linux.SupplementalGroups)
	}
	if got != 16<<10 {
		t.Errorf("%d groups, want %d", got, 16<<10)
	}
}

// Why containers wait is bounded for all containers of a pod together, and for few containers only by the bound on one.
func TestWaitingMessagesAreBounded(t *testing.T) {
	for n, want := range map[int]int{1: 2 << 10, 32: 64 << 10, 1024: 64 << 10} {
		var names []string
		errs := map[string]apistatus.Problem{}
		for i := range n {
			names = append(names, fmt.Sprintf("c%d", i))
			errs[names[i]] = apistatus.Problem{Reason: "CreateContainerError", Message: strings.Repeat("x", 1<<20) + "\x1b[2J"}
		}
		got := 0
		for _, c := range apistatus.GeneratePodStatus(apistatus.Input{Pod: pod(v1.RestartPolicyAlways, names...), StartErrors: errs}).ContainerStatuses {
			if got += len(c.State.Waiting.Message); !strings.HasSuffix(c.State.Waiting.Message, `x\x1b[2J`) {
				t.Fatalf("%q", c.State.Waiting.Message)
			}
		}
		if got > want || got < want/2 {
			t.Errorf("%d containers have messages of %d bytes, want %d at most", n, got, want)
		}
	}
	const short = "exec: \"/app\": not found\nin two lines"
	s := apistatus.GeneratePodStatus(apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "a"), StartErrors: map[string]apistatus.Problem{"a": {Message: short}}})
	if got := s.ContainerStatuses[0].State.Waiting.Message; got != short {
		t.Errorf("%q became %q", short, got)
	}
}
