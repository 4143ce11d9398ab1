package status_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

func TestPhase(t *testing.T) {
	never := v1.ContainerRestartPolicyNever
	onFailure := v1.ContainerRestartPolicyOnFailure
	on42 := []v1.ContainerRestartRule{{
		Action:    v1.ContainerRestartRuleActionRestart,
		ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
	}}
	withInit := func(policy v1.RestartPolicy, change func(*v1.Container)) *v1.Pod {
		p := pod(policy, "app")
		p.Spec.InitContainers = []v1.Container{{Name: "init"}}
		change(&p.Spec.InitContainers[0])
		return p
	}
	withRules := pod(v1.RestartPolicyNever, "app")
	withRules.Spec.Containers[0].RestartPolicyRules = on42
	withNever := pod(v1.RestartPolicyAlways, "app")
	withNever.Spec.Containers[0].RestartPolicy = &never
	static := pod(v1.RestartPolicyAlways, "app")
	static.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
	unchanged := func(*v1.Container) {}
	// The last status has a sidecar that had started, and a container that had run.
	sidecarAndOld := withInit(v1.RestartPolicyAlways, func(c *v1.Container) { c.RestartPolicy = &always })
	sidecarAndOld.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", Started: new(true)}}
	sidecarAndOld.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	earlier := node(running("init", "i0", 0), exited("app", "a0", 0, 0))
	earlier.Containers[1].SandboxID = "an earlier one"
	for name, tc := range map[string]struct {
		pod      *v1.Pod
		status   *runtime.PodStatus
		terminal bool
		want     v1.PodPhase
	}{
		"nothing known":                     {pod("", "app"), nil, false, v1.PodPending},
		"no policy is Always":               {pod("", "app"), node(exited("app", "a0", 0, 0)), false, v1.PodRunning},
		"the pod is stopped":                {pod("", "app"), node(exited("app", "a0", 0, 0)), true, v1.PodSucceeded},
		"the pod is stopped with an error":  {pod("", "app"), node(exited("app", "a0", 0, 137)), true, v1.PodFailed},
		"a static pod is stopped":           {static, node(exited("app", "a0", 0, 0)), true, v1.PodRunning},
		"a rule asks for another run":       {withRules, node(exited("app", "a0", 0, 42)), false, v1.PodRunning},
		"no rule asks for another run":      {withRules, node(exited("app", "a0", 0, 1)), false, v1.PodFailed},
		"the container's own policy counts": {withNever, node(exited("app", "a0", 0, 1)), false, v1.PodFailed},
		"an init container failed":          {withInit(v1.RestartPolicyNever, unchanged), node(exited("init", "i0", 0, 1)), false, v1.PodFailed},
		"an init container runs again":      {withInit(v1.RestartPolicyOnFailure, unchanged), node(exited("init", "i0", 0, 1)), false, v1.PodPending},
		"one whose own policy says so":      {withInit(v1.RestartPolicyNever, func(c *v1.Container) { c.RestartPolicy = &onFailure }), node(exited("init", "i0", 0, 1)), false, v1.PodPending},
		"one whose rule says so":            {withInit(v1.RestartPolicyNever, func(c *v1.Container) { c.RestartPolicyRules = on42 }), node(exited("init", "i0", 0, 42)), false, v1.PodPending},
		"one whose own policy forbids it":   {withInit(v1.RestartPolicyAlways, func(c *v1.Container) { c.RestartPolicy = &never }), node(exited("init", "i0", 0, 1)), false, v1.PodFailed},
		"a sidecar runs anew":               {sidecarAndOld, node(running("init", "i1", 1)), false, v1.PodRunning},
		"it runs beside one that is lost": {withInit(v1.RestartPolicyAlways, func(c *v1.Container) { c.RestartPolicy = &always }),
			node(running("init", "i0", 0), unknown("app", "a1", 1), exited("app", "a0", 0, 1)), false, v1.PodRunning},
		"a sidecar alone": {withInit(v1.RestartPolicyNever, func(c *v1.Container) { c.RestartPolicy = &always }), node(running("init", "i0", 0)), false, v1.PodPending},
		"a sidecar that failed": {withInit(v1.RestartPolicyNever, func(c *v1.Container) { c.RestartPolicy = &always }),
			node(exited("init", "i0", 0, 1), exited("app", "a0", 0, 0)), false, v1.PodSucceeded},
		"only a sidecar runs": {withInit(v1.RestartPolicyNever, func(c *v1.Container) { c.RestartPolicy = &always }),
			node(running("init", "i0", 0), exited("app", "a0", 0, 0)), false, v1.PodRunning},
		"initialization begins anew (#140309)": {withInit(v1.RestartPolicyNever, unchanged), earlier, false, v1.PodPending},
		"a pod without containers":             {&v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyNever}}, node(), true, v1.PodPending},
	} {
		if got := apistatus.GeneratePodStatus(apistatus.Input{Pod: tc.pod, Status: tc.status, Terminal: tc.terminal}).Phase; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestEvictedAndBlocked(t *testing.T) {
	problem := &apistatus.Problem{Reason: "NodeShutdown", Message: "the node goes down"}
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Blocked: problem}
	got := next(&in)
	if got.Phase != v1.PodPending || got.Reason != "NodeShutdown" || got.Message != problem.Message {
		t.Errorf("blocked: %s, %q, %q, want Phase %v and Reason %q and Message %v", got.Phase, got.Reason, got.Message, v1.PodPending, "NodeShutdown", problem.Message)
	}
	if w := got.ContainerStatuses[0].State.Waiting; w.Reason != string(apistatus.Blocked) {
		t.Errorf("blocked: the container waits for %q", w.Reason)
	}
	in.Blocked, in.Status = nil, node(running("app", "a0", 0))
	if got = next(&in); got.Phase != v1.PodRunning || got.Reason != "" {
		t.Errorf("no longer blocked: %s, %q", got.Phase, got.Reason)
	}
	in.Evicted, in.Status = problem, node(exited("app", "a0", 0, 137))
	if got = next(&in); got.Phase != v1.PodFailed || got.Reason != "NodeShutdown" {
		t.Errorf("evicted: %s, %q, want Phase %v and Reason %q", got.Phase, got.Reason, v1.PodFailed, "NodeShutdown")
	}
	in.Evicted = nil
	if got = next(&in); got.Phase != v1.PodFailed || got.Reason != "NodeShutdown" || got.Message != problem.Message {
		t.Errorf("after the eviction: %s, %q, %q", got.Phase, got.Reason, got.Message)
	}
}

// A pod's last status: observed facts about its containers count, and only unobserved exits are made up.
func TestLastStatus(t *testing.T) {
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		code   int32
		reason string
		want   v1.PodPhase
	}{
		"it succeeded":                       {node(exited("app", "a0", 0, 0)), 0, "Error", v1.PodSucceeded},
		"it failed":                          {node(exited("app", "a0", 0, 3)), 3, "Error", v1.PodFailed},
		"it was never made":                  {nil, 137, "ContainerStatusUnknown", v1.PodFailed},
		"it was made and never ran":          {node(created("app", "a0", 0)), 137, "ContainerStatusUnknown", v1.PodFailed},
		"it was to run again":                {node(created("app", "a1", 1), exited("app", "a0", 0, 3)), 3, "Error", v1.PodFailed},
		"it was to run again after its work": {node(created("app", "a1", 1), exited("app", "a0", 0, 0)), 0, "Error", v1.PodSucceeded},
	} {
		in := apistatus.Input{
			Pod: pod(v1.RestartPolicyAlways, "app"), Status: tc.status, Ended: true,
			StartErrors: map[string]apistatus.Problem{"app": {Reason: "CrashLoopBackOff"}},
		}
		for range 2 {
			got := next(&in)
			end := got.ContainerStatuses[0].State.Terminated
			if got.Phase != tc.want || end == nil || end.ExitCode != tc.code || end.Reason != tc.reason {
				t.Errorf("%s: %s, %+v; want %s, exit code %d, %s", name, got.Phase, end, tc.want, tc.code, tc.reason)
			}
		}
	}
}

// A pod that ends before its init containers have succeeded: the other containers were not due to start, and never
// ran.
func TestLastStatusBeforeTheTurn(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Ended: true}
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		before v1.PodStatus
		waits  bool
	}{
		"nothing was made":          {nil, v1.PodStatus{}, true},
		"its init container failed": {node(exited("init", "i0", 0, 1)), v1.PodStatus{}, true},
		"it was made":               {node(created("app", "a0", 0), exited("init", "i0", 0, 0)), v1.PodStatus{}, false},
		"it was initialized":        {nil, v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodInitialized, Status: v1.ConditionTrue}}}, false},
	} {
		in.Status, in.Previous = tc.status, &tc.before
		got := apistatus.GeneratePodStatus(in)
		if s := got.ContainerStatuses[0].State; got.Phase != v1.PodFailed || (s.Waiting != nil) != tc.waits {
			t.Errorf("%s: %s, %+v; want Failed, waiting %v", name, got.Phase, s, tc.waits)
		}
	}
}

// A static pod that is stopped was not deleted: the next agent runs it again.
func TestLastStatusOfAStaticPod(t *testing.T) {
	for name, tc := range map[string]struct {
		policy v1.RestartPolicy
		status *runtime.PodStatus
		want   v1.PodPhase
	}{
		"it would run again": {v1.RestartPolicyAlways, node(exited("app", "a0", 0, 137)), v1.PodRunning},
		"it had its run":     {v1.RestartPolicyNever, node(exited("app", "a0", 0, 0)), v1.PodSucceeded},
		"it was being made":  {v1.RestartPolicyAlways, node(created("app", "a0", 0)), v1.PodPending},
		"it never was":       {v1.RestartPolicyAlways, node(), v1.PodPending},
	} {
		in := apistatus.Input{Pod: pod(tc.policy, "app"), Status: tc.status, Terminal: true, Ended: true}
		in.Pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
		got := apistatus.GeneratePodStatus(in)
		if got.Phase != tc.want || got.ContainerStatuses[0].State.Terminated == nil {
			t.Errorf("%s: %s, %+v; want %s and an end", name, got.Phase, got.ContainerStatuses[0].State, tc.want)
		}
		in.Previous = &got
		if again := apistatus.GeneratePodStatus(in); again.Phase != tc.want {
			t.Errorf("%s: %s when it is computed again, want %s", name, again.Phase, tc.want)
		}
	}
}

// A deleted static pod ends like any other pod.
func TestT1_DeletedStaticPodEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		want   v1.PodPhase
	}{
		"without an error": {node(exited("app", "a0", 0, 0)), v1.PodSucceeded},
		"with an error":    {node(exited("app", "a0", 0, 137)), v1.PodFailed},
		"before it ran":    {node(created("app", "a0", 0)), v1.PodFailed},
		"before it was":    {node(), v1.PodFailed},
		"while it runs":    {node(running("app", "a0", 0)), v1.PodRunning},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: tc.status, Terminal: true, Ended: true}
		in.Pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
		in.Pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(1700000000, 0)}
		if got := apistatus.GeneratePodStatus(in); got.Phase != tc.want {
			t.Errorf("%s: %s, %+v; want %s", name, got.Phase, got.ContainerStatuses[0].State, tc.want)
		}
	}
}

// A static pod with restart policy Never does not run again after one of its containers has run.
func TestT1_StaticPodThatHadItsRunEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		want   v1.PodPhase
	}{
		"one has run":       {node(exited("app", "a0", 0, 0)), v1.PodFailed},
		"one was created":   {node(created("app", "a0", 0)), v1.PodPending},
		"and again":         {node(created("app", "a1", 1), exited("app", "a0", 0, 1)), v1.PodFailed},
		"nothing was there": {node(), v1.PodPending},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app", "other"), Status: tc.status, Terminal: true, Ended: true}
		in.Pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "file"}
		if got := apistatus.GeneratePodStatus(in); got.Phase != tc.want {
			t.Errorf("%s: %s, %+v; want %s", name, got.Phase, got.ContainerStatuses, tc.want)
		}
	}
}

func TestLastStatusOfAPodThatWasInitializing(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(exited("first", "f0", 0, 1)), Ended: true}
	in.Pod.Spec.InitContainers = []v1.Container{{Name: "first"}, {Name: "second"}}
	got := apistatus.GeneratePodStatus(in)
	if got.Phase != v1.PodFailed || got.InitContainerStatuses[0].State.Terminated == nil || got.InitContainerStatuses[1].State.Waiting == nil {
		t.Errorf("%s, %+v, want %v, the first init container terminated, and the second one waiting", got.Phase, got.InitContainerStatuses, v1.PodFailed)
	}
}

// The reported reason of the pod's end stays, unless the containers show another end.
func TestReasonOfAnEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		want   string
	}{
		"nothing known":        {nil, "Evicted"},
		"the same end":         {node(exited("app", "a0", 0, 0)), "Evicted"},
		"another end":          {node(exited("app", "a0", 0, 1)), ""},
		"another, and created": {node(created("app", "a1", 1), exited("app", "a0", 0, 1)), ""},
		"it runs":              {node(running("app", "a0", 0)), "Evicted"},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: tc.status}
		in.Pod.Status = v1.PodStatus{Phase: v1.PodSucceeded, Reason: "Evicted", Message: "low on memory"}
		if got := apistatus.GeneratePodStatus(in); got.Phase != v1.PodSucceeded || got.Reason != tc.want || (got.Message != "") != (tc.want != "") {
			t.Errorf("%s: %s, %q, %q; want the reason %q", name, got.Phase, got.Reason, got.Message, tc.want)
		}
	}
}

func TestPodAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		hostNetwork               bool
		sandbox, host, last, want []string
	}{
		"none":                              {},
		"IPv4 first":                        {sandbox: []string{"fd00::7", "10.0.0.7"}, want: []string{"10.0.0.7", "fd00::7"}},
		"the node's family first":           {sandbox: []string{"10.0.0.7", "fd00::7"}, host: []string{"2001:db8::1"}, want: []string{"fd00::7", "10.0.0.7"}},
		"one of a family":                   {sandbox: []string{"10.0.0.7", "10.0.0.8", "fd00::7"}, want: []string{"10.0.0.7", "fd00::7"}},
		"invalid addresses":                 {sandbox: []string{"", "x", "10.0.0.7"}, want: []string{"10.0.0.7"}},
		"new ones replace all":              {sandbox: []string{"10.0.0.8"}, last: []string{"10.0.0.7", "fd00::7"}, want: []string{"10.0.0.8"}},
		"the node's":                        {hostNetwork: true, host: []string{"192.0.2.1"}, want: []string{"192.0.2.1"}},
		"the node's stay":                   {hostNetwork: true, host: []string{"192.0.2.2"}, last: []string{"192.0.2.1"}, want: []string{"192.0.2.1"}},
		"the node becomes dual-stack":       {hostNetwork: true, host: []string{"192.0.2.1", "2001:db8::1"}, last: []string{"192.0.2.1"}, want: []string{"192.0.2.1", "2001:db8::1"}},
		"its IPv6 address is the primary":   {hostNetwork: true, host: []string{"2001:db8::1", "192.0.2.1"}, want: []string{"2001:db8::1", "192.0.2.1"}},
		"the node's are not those of a pod": {host: []string{"192.0.2.1"}},
	} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(), HostIPs: tc.host, Previous: &v1.PodStatus{}}
		in.Pod.Spec.HostNetwork = tc.hostNetwork
		in.Status.Sandboxes[0].Network.IPs = tc.sandbox
		for _, ip := range tc.last {
			in.Previous.PodIPs = append(in.Previous.PodIPs, v1.PodIP{IP: ip})
		}
		got := apistatus.GeneratePodStatus(in)
		var ips []string
		for _, ip := range got.PodIPs {
			ips = append(ips, ip.IP)
		}
		if fmt.Sprint(ips) != fmt.Sprint(tc.want) || len(ips) > 0 && got.PodIP != ips[0] {
			t.Errorf("%s: %q, %q, want %q", name, got.PodIP, ips, tc.want)
		}
	}
}

func condition(s v1.PodStatus, t v1.PodConditionType) v1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == t {
			return c
		}
	}
	return v1.PodCondition{}
}

func TestTransitionTimeChangesWithTheStatusOnly(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0)), Now: noon}
	ready := func() time.Time { c := condition(next(&in), v1.PodReady); return c.LastTransitionTime.Time }
	first := ready()
	in.Now = noon.Add(time.Minute)
	if got := ready(); !first.Equal(noon) || !got.Equal(noon) {
		t.Errorf("ready since %v, then %v, want %v", first, got, noon)
	}
	in.Status = node(exited("app", "a0", 0, 1))
	if got := ready(); !got.Equal(in.Now) {
		t.Errorf("not ready since %v, want %v", got, in.Now)
	}
	in.Now = in.Now.Add(time.Minute)
	in.Evicted = &apistatus.Problem{Reason: "Evicted"}
	if got := ready(); !got.Equal(noon.Add(time.Minute)) {
		t.Errorf("not ready for another reason since %v, want %v", got, noon.Add(time.Minute))
	}
}

func TestReadinessGates(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0))}
	in.Pod.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "a"}, {ConditionType: "b"}}
	in.Pod.Status.Conditions = []v1.PodCondition{{Type: "a", Status: v1.ConditionFalse}}
	got := condition(apistatus.GeneratePodStatus(in), v1.PodReady)
	want := `the status of pod readiness gate "a" is not "True", but False, corresponding condition of pod readiness gate "b" does not exist.`
	if got.Status != v1.ConditionFalse || got.Reason != "ReadinessGatesNotReady" || got.Message != want {
		t.Errorf("%s, %s, %s, want Status %v and Reason %q and Message %v", got.Status, got.Reason, got.Message, v1.ConditionFalse, "ReadinessGatesNotReady", want)
	}
	in.Pod.Status.Conditions = []v1.PodCondition{{Type: "a", Status: v1.ConditionTrue}, {Type: "b", Status: v1.ConditionTrue}}
	if got := condition(apistatus.GeneratePodStatus(in), v1.PodReady); got.Status != v1.ConditionTrue || got.Reason != "" {
		t.Errorf("all gates open: %s, %s", got.Status, got.Reason)
	}
}

// Conditions of other writers are kept. Conditions of the agent are those in the Input. The conditions that GeneratePodStatus
// decides cannot be overridden.
func TestWhoseConditions(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Now: noon}
	in.Pod.Status.Conditions = []v1.PodCondition{
		{Type: "example.com/theirs", Status: v1.ConditionTrue, Message: "kept"},
		{Type: v1.PodResizePending, Status: v1.ConditionTrue},
		{Type: v1.PodReady, Status: v1.ConditionTrue},
	}
	in.Previous = &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: "TerminationByKubelet"}}}
	in.Conditions = []v1.PodCondition{
		{Type: v1.AllContainersRestarting, Status: v1.ConditionTrue},
		{Type: v1.PodReady, Status: v1.ConditionTrue},
	}
	var types []string
	s := apistatus.GeneratePodStatus(in)
	for _, c := range s.Conditions {
		types = append(types, string(c.Type))
	}
	want := "example.com/theirs DisruptionTarget AllContainersRestarting PodReadyToStartContainers Initialized Ready ContainersReady PodScheduled"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
	if condition(s, v1.PodReady).Status != v1.ConditionFalse {
		t.Error("Ready was overridden")
	}
	if got := condition(s, v1.AllContainersRestarting); !got.LastTransitionTime.Time.Equal(noon) {
		t.Errorf("transition time %v, want %v", got.LastTransitionTime, noon)
	}
}

// T9: a disruption that another writer has taken back is not reported from the last status (kubernetes #113578, #111475).
func TestT9_DisruptionsOfOthersAreTheirs(t *testing.T) {
	for _, reason := range []string{"EvictionByEvictionAPI", "PreemptionByScheduler", "DeletionByTaintManager", ""} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Now: noon}
		in.Pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionFalse, Reason: reason}}
		in.Previous = &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason}}}
		if got := condition(apistatus.GeneratePodStatus(in), v1.DisruptionTarget); got.Status != v1.ConditionFalse {
			t.Errorf("%s: %+v, want the one of the pod", reason, got)
		}
	}
}

func TestReadyToStartContainers(t *testing.T) {
	double := node()
	double.Sandboxes = append(double.Sandboxes, runtime.SandboxStatus{ID: "s1", Attempt: 1, State: runtime.SandboxReady})
	otherNetwork := node()
	otherNetwork.Sandboxes[0].NetworkMode = runtime.NamespaceNode
	for name, tc := range map[string]struct {
		status *runtime.PodStatus
		want   v1.ConditionStatus
	}{
		"none": {nil, v1.ConditionFalse}, "one": {node(), v1.ConditionTrue},
		"two": {double, v1.ConditionFalse}, "of another network": {otherNetwork, v1.ConditionFalse},
	} {
		s := apistatus.GeneratePodStatus(apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: tc.status})
		if got := condition(s, v1.PodReadyToStartContainers).Status; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestStartErrorCountsOnlyForAContainerToStart(t *testing.T) {
	deleted := pod(v1.RestartPolicyAlways, "app")
	deleted.DeletionTimestamp = &metav1.Time{Time: noon}
	for name, tc := range map[string]struct {
		pod    *v1.Pod
		status *runtime.PodStatus
		waits  bool
	}{
		"never started":            {pod(v1.RestartPolicyNever, "app"), nil, true},
		"created":                  {pod(v1.RestartPolicyNever, "app"), node(created("app", "a0", 0)), true},
		"unknown":                  {pod(v1.RestartPolicyNever, "app"), node(unknown("app", "a0", 0)), true},
		"ended, to run again":      {pod(v1.RestartPolicyAlways, "app"), node(exited("app", "a0", 0, 0)), true},
		"ended for good":           {pod(v1.RestartPolicyNever, "app"), node(exited("app", "a0", 0, 0)), false},
		"running":                  {pod(v1.RestartPolicyAlways, "app"), node(running("app", "a0", 0)), false},
		"in a pod that is deleted": {deleted, node(exited("app", "a0", 0, 0)), false},
	} {
		in := apistatus.Input{Pod: tc.pod, Status: tc.status, StartErrors: map[string]apistatus.Problem{"app": {Reason: "ErrImagePull", Message: "no such image"}}}
		w := apistatus.GeneratePodStatus(in).ContainerStatuses[0].State.Waiting
		if got := w != nil && w.Reason == "ErrImagePull" && w.Message == "no such image"; got != tc.waits {
			t.Errorf("%s: waits %+v, want the start error: %v", name, w, tc.waits)
		}
	}
}

func TestOtherReports(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "web", "app"), Now: noon, Status: node(running("app", "a0", 0))}
	in.Status.Containers[0].ImageID = "sha256:i"
	in.Pod.Generation = 7
	in.Pod.Status = v1.PodStatus{
		NominatedNodeName: "n1", ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "gpu"}},
	}
	s := next(&in)
	if s.ObservedGeneration != 7 || condition(s, v1.PodScheduled).ObservedGeneration != 7 {
		t.Errorf("observed generation %d", s.ObservedGeneration)
	}
	if s.NominatedNodeName != "n1" || len(s.ResourceClaimStatuses) != 1 {
		t.Errorf("fields of others: %+v", s)
	}
	if s.ContainerStatuses[0].Name != "app" || s.ContainerStatuses[0].ImageID != "sha256:i" {
		t.Errorf("containers are not in the order of their names: %+v", s.ContainerStatuses)
	}
	in.Now = noon.Add(time.Hour)
	if s = next(&in); !s.StartTime.Time.Equal(noon) {
		t.Errorf("start time %v, want %v", s.StartTime, noon)
	}
}

func TestBadInput(t *testing.T) {
	if err := (apistatus.Input{}).Validate(); err == nil || !strings.Contains(err.Error(), "Pod") {
		t.Errorf("error %v, want one that names Pod", err)
	}
	if s := apistatus.GeneratePodStatus(apistatus.Input{}); s.Phase != "" || s.Conditions != nil {
		t.Errorf("without a pod: %+v", s)
	}
}

// T3: a reported podIP also stays if the status has no podIPs.
func TestT3_OneAddressStays(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Previous: &v1.PodStatus{PodIP: "10.0.0.7"}}
	if got := apistatus.GeneratePodStatus(in); got.PodIP != "10.0.0.7" || len(got.PodIPs) != 1 {
		t.Errorf("%q, %v, want only %q", got.PodIP, got.PodIPs, "10.0.0.7")
	}
	in.Previous = &v1.PodStatus{PodIP: "10.0.0.7", PodIPs: []v1.PodIP{{IP: "10.0.0.8"}}}
	if got := apistatus.GeneratePodStatus(in); got.PodIP != "10.0.0.8" || len(got.PodIPs) != 1 {
		t.Errorf("%q, %v; want what the list says", got.PodIP, got.PodIPs)
	}
}

// The last state is the exit of the latest other instance that has exited, whatever their order in the list.
func TestLastStateIsTheLatestEnd(t *testing.T) {
	ends := []runtime.ContainerStatus{exited("app", "a1", 1, 1), exited("app", "a2", 2, 2), exited("app", "a0", 0, 9), exited("other", "o8", 8, 8)}
	for _, all := range [][]runtime.ContainerStatus{ends, {ends[1], ends[0], ends[2]}, {created("app", "a3", 3), ends[2], ends[1]}} {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(append(slices.Clone(all), running("app", "a4", 4))...)}
		if last := apistatus.GeneratePodStatus(in).ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.ExitCode != 2 {
			t.Errorf("%+v, want exit code 2", last)
		}
	}
}

// A pod that has ended is no longer blocked, and a pod of the API server is not static, whatever its
// annotations.
func TestEndsThatStay(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyNever, "app"), Status: node(exited("app", "a0", 0, 0)), Blocked: &apistatus.Problem{Reason: "x"}}
	if got := apistatus.GeneratePodStatus(in); got.Phase != v1.PodSucceeded || got.Reason != "" {
		t.Errorf("blocked: %s, %q, want Phase %v and Reason %q", got.Phase, got.Reason, v1.PodSucceeded, "")
	}
	in = apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(exited("app", "a0", 0, 137)), Terminal: true, Ended: true}
	in.Pod.Annotations = map[string]string{runtime.AnnotationConfigSource: runtime.ConfigSourceAPI}
	if got := apistatus.GeneratePodStatus(in); got.Phase != v1.PodFailed {
		t.Errorf("a pod of the API: %s", got.Phase)
	}
}

// T5: the readiness of the same instance is kept only if it was ready or started before.
func TestT5_UnreadyContainerStaysUnready(t *testing.T) {
	in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "app"), Status: node(running("app", "a0", 0))}
	in.Pod.Spec.Containers[0].StartupProbe, in.Pod.Spec.Containers[0].ReadinessProbe = &v1.Probe{}, &v1.Probe{}
	next(&in)
	if s := next(&in).ContainerStatuses[0]; s.Ready || *s.Started {
		t.Errorf("ready %v, started %v before any probe", s.Ready, *s.Started)
	}
	in.Probes = map[runtime.ContainerID]actions.ProbeResults{containerID("a0"): {Startup: actions.ProbeSuccess}}
	next(&in)
	if s := next(&in).ContainerStatuses[0]; s.Ready || !*s.Started {
		t.Errorf("ready %v, started %v after the startup probe", s.Ready, *s.Started)
	}
	in.Probes = nil // as after an agent restart
	if s := next(&in).ContainerStatuses[0]; s.Ready || !*s.Started {
		t.Errorf("ready %v, started %v without results", s.Ready, *s.Started)
	}
}

// The status shares no memory with the input, and has the fields of other writers.
func TestStatusIsItsOwn(t *testing.T) {
	given := func() apistatus.Input {
		in := apistatus.Input{Pod: pod(v1.RestartPolicyAlways, "lost", "app"), Status: node(unknown("app", "a0", 0)), Now: noon}
		in.Pod.Spec.EphemeralContainers = []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "z"}}, {EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "a"}},
		}
		in.Pod.Status.ExtendedResourceClaimStatus = &v1.PodExtendedResourceClaimStatus{ResourceClaimName: "gpu"}
		end := func() v1.ContainerState {
			return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 3}}
		}
		in.Previous = &v1.PodStatus{
			StartTime: new(metav1.NewTime(noon)), HostIP: "192.0.2.1", HostIPs: []v1.HostIP{{IP: "192.0.2.1"}},
			ContainerStatuses: []v1.ContainerStatus{{Name: "app", ContainerID: "containerd://a0", State: end()}, {Name: "lost", ContainerID: "containerd://l0", State: end()}},
		}
		return in
	}
	in := given()
	s := apistatus.GeneratePodStatus(in)
	if s.ExtendedResourceClaimStatus == nil || s.EphemeralContainerStatuses[0].Name != "a" || len(s.HostIPs) != 1 || s.QOSClass != v1.PodQOSBestEffort {
		t.Fatalf("status %+v, want an extended resource claim, ephemeral container %q, one host address and QoS class %v", s, "a", v1.PodQOSBestEffort)
	}
	s.ExtendedResourceClaimStatus.ResourceClaimName, s.HostIPs[0].IP = "x", "x"
	*s.StartTime = metav1.Time{}
	for i := range s.ContainerStatuses {
		s.ContainerStatuses[i].State.Terminated.ExitCode = 9
	}
	if !reflect.DeepEqual(in, given()) {
		t.Error("what was handed in was changed by it")
	}
}
