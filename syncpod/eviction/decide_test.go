package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// A node is decided on again and again.
type node struct {
	*testing.T
	rules Rules
	state State
	now   time.Time
	last  Decision
}

func newNode(t *testing.T, p Policy, pods ...Candidate) *node {
	return &node{T: t, rules: rulesOf(t, p), state: State{Pods: pods}, now: time.Unix(1_000_000, 0)}
}

// has sets the available amount of a signal, out of 16 Gi.
func (n *node) has(s Signal, available uint64) {
	n.state.Readings = slices.DeleteFunc(n.state.Readings, func(r Reading) bool { return r.Signal == s })
	n.state.Readings = append(n.state.Readings, Reading{Signal: s, Available: available, Capacity: 16 * gi})
}

// after decides after some time, with new readings.
func (n *node) after(d time.Duration) Decision {
	n.now = n.now.Add(d)
	for i := range n.state.Readings {
		n.state.Readings[i].Time = n.now
	}
	n.last = Decide(n.rules, n.state, n.now)
	n.state.Memory = n.last.Memory
	return n.last
}

func (n *node) wantEvicted(want ...string) {
	n.Helper()
	var got []string
	for _, e := range n.last.Evict {
		got = append(got, string(e.Pod.UID))
	}
	if !slices.Equal(got, want) {
		n.Errorf("evicted are %v, want %v:\n%v", got, want, n.last)
	}
}

func (n *node) wantUnder(want ...v1.NodeConditionType) {
	n.Helper()
	var got []v1.NodeConditionType
	for _, c := range n.last.Conditions {
		if c.Status == v1.ConditionTrue {
			got = append(got, c.Type)
		}
	}
	if !slices.Equal(got, want) || len(n.last.Conditions) != 3 {
		n.Errorf("under %v, want %v of three", got, want)
	}
}

func TestHardThreshold(t *testing.T) {
	n := newNode(t, Policy{}, candidate("within", 0, gi, gi/2), candidate("beyond", 0, gi, 3*gi))
	n.has(MemoryAvailable, 100*mi)
	n.after(0)
	n.wantEvicted()
	n.wantUnder()
	n.has(MemoryAvailable, 100*mi-1)
	d := n.after(time.Second)
	n.wantEvicted("beyond")
	n.wantUnder(v1.NodeMemoryPressure)
	want := "The node was low on resource: memory. Threshold quantity: 100Mi, available: 104857599. " +
		"Container app was using 3Gi, request is 1Gi, has larger consumption of memory. "
	if e := d.Evict[0]; e.Message != want || e.GraceSeconds != 1 || !e.Disruption || e.Signal != MemoryAvailable {
		t.Errorf("%+v\nwant %q", e, want)
	}
	annotations := map[string]string{"starved_resource": "memory", "offending_containers": "app", "offending_containers_usage": "3Gi"}
	if got := d.Evict[0].Annotations; !maps.Equal(got, annotations) {
		t.Errorf("annotations %v, want %v", got, annotations)
	}
}

// Pods that together use more than their cgroup may have are a pressure on memory, however much the node has left.
func TestLimitOfAllPods(t *testing.T) {
	n := newNode(t, Policy{Hard: map[Signal]string{MemoryAvailable: "100Mi", AllocatableMemoryAvailable: "200Mi"}},
		candidate("within", 0, gi, gi/2), candidate("beyond", 0, gi, 3*gi))
	n.has(MemoryAvailable, 8*gi)
	n.has(AllocatableMemoryAvailable, 200*mi)
	n.after(0)
	n.wantEvicted()
	n.has(AllocatableMemoryAvailable, 200*mi-1)
	d := n.after(time.Second)
	n.wantEvicted("beyond")
	n.wantUnder(v1.NodeMemoryPressure)
	if e := d.Evict[0]; e.Signal != AllocatableMemoryAvailable || !strings.HasPrefix(e.Message, "The node was low on resource: memory. Threshold quantity: 200Mi, available: ") {
		t.Errorf("%+v", e)
	}
}

// The annotations name the pod if it has requests of its own, and only the resource if the pod's usage is unknown.
// The message of an eviction for disk names the volume that fills the disk, which no container's usage has.
func TestMessageNamesTheLargestVolume(t *testing.T) {
	pod := candidate("files", 0, 0, 0)
	pod.Usage = &Usage{
		Containers: []ContainerUsage{{Name: "app", RootFS: DiskUsage{Bytes: new(uint64(92 << 10))}}},
		Volumes:    []VolumeUsage{{"small", DiskUsage{Bytes: new(uint64(mi))}}, {"scratch", DiskUsage{Bytes: new(uint64(5 * gi))}}},
	}
	for signal, want := range map[Signal]bool{NodeFSAvailable: true, MemoryAvailable: false} {
		why := &Met{Threshold: Threshold{Signal: signal}, Reading: Reading{Signal: signal, Capacity: 1}}
		if got := pressed(pod, why, 0).Message; strings.Contains(got, "Volume scratch was using 5Gi. ") != want {
			t.Errorf("%s: %q names the volume: want %v", signal, got, want)
		}
	}
}

func TestAnnotationsOfAnEviction(t *testing.T) {
	whole := candidate("whole", 0, 4*gi, 3*gi)
	whole.Pod.Spec.Resources = &v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}
	unknown := candidate("unknown", 0, gi, 3*gi)
	unknown.Usage = nil
	for _, tc := range []struct {
		name   string
		pod    Candidate
		signal Signal
		want   map[string]string
	}{
		{"requests of the pod", whole, MemoryAvailable, map[string]string{
			"starved_resource": "memory", "offending_pod": "whole", "offending_pod_usage": "3Gi", "offending_containers": "", "offending_containers_usage": "",
		}},
		{"inodes", candidate("files", 0, 1, 5), NodeFSInodesFree, map[string]string{
			"starved_resource": "inodes", "offending_containers": "", "offending_containers_usage": "",
		}},
		{"unknown usage", unknown, MemoryAvailable, map[string]string{"starved_resource": "memory"}},
	} {
		why := &Met{Threshold: Threshold{Signal: tc.signal}, Reading: Reading{Signal: tc.signal, Capacity: 1}}
		if got := pressed(tc.pod, why, 0).Annotations; !maps.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestSoftThreshold(t *testing.T) {
	own := int64(20)
	pod := candidate("a", 0, 0, gi)
	pod.Pod.Spec.TerminationGracePeriodSeconds = &own
	n := newNode(t, Policy{
		Hard: map[Signal]string{}, Soft: map[Signal]string{MemoryAvailable: "1Gi"},
		SoftGracePeriod: map[Signal]time.Duration{MemoryAvailable: time.Minute}, MaxPodGracePeriod: 10 * time.Second,
	}, pod)
	n.has(MemoryAvailable, gi/2)
	n.after(0)
	n.after(59 * time.Second)
	n.wantEvicted()
	n.wantUnder(v1.NodeMemoryPressure)
	n.has(MemoryAvailable, 2*gi) // and the grace period of the threshold begins again
	n.after(500 * time.Millisecond)
	n.has(MemoryAvailable, gi/2)
	n.after(time.Second)
	n.after(59 * time.Second)
	n.wantEvicted()
	n.after(time.Second)
	n.wantEvicted("a")
	if got := n.last.Evict[0].GraceSeconds; got != 10 {
		t.Errorf("it has %d s to stop, want 10", got)
	}
}

// After an eviction, more than the threshold must be available (minimum reclaim).
func TestMinimumReclaim(t *testing.T) {
	n := newNode(t, Policy{MinimumReclaim: map[Signal]string{MemoryAvailable: "400Mi"}}, candidate("a", 0, 0, gi), candidate("b", 0, 0, gi))
	n.has(MemoryAvailable, 300*mi)
	n.after(0)
	n.wantEvicted()
	n.has(MemoryAvailable, 50*mi)
	n.after(time.Second)
	n.wantEvicted("a")
	n.state.Pods = n.state.Pods[1:]
	n.has(MemoryAvailable, 499*mi)
	n.after(time.Second)
	n.wantEvicted("b")
	n.has(MemoryAvailable, 500*mi)
	n.after(time.Second)
	n.wantEvicted()
	n.has(MemoryAvailable, 300*mi)
	n.after(time.Second)
	n.wantEvicted()
}

func TestPressureTransition(t *testing.T) {
	n := newNode(t, Policy{})
	n.has(MemoryAvailable, 0)
	n.after(0)
	began := n.last.Conditions[0].LastTransitionTime
	n.has(MemoryAvailable, gi)
	n.after(5*time.Minute - time.Second)
	n.wantUnder(v1.NodeMemoryPressure)
	if c := n.last.Conditions[0]; !c.LastTransitionTime.Equal(&began) || c.Reason != "KubeletHasInsufficientMemory" {
		t.Errorf("%+v, want it since %v", c, began)
	}
	n.after(time.Second)
	n.wantUnder()
	if c := n.last.Conditions[0]; c.LastTransitionTime.Equal(&began) || c.Reason != "KubeletHasSufficientMemory" {
		t.Errorf("%+v, since %v, want a later transition, and reason %q", c, began, "KubeletHasSufficientMemory")
	}
}

// Missing, old or impossible readings have no effect.
func TestReadingsThatDoNotCount(t *testing.T) {
	for want, break_ := range map[string]func(*State, time.Time){
		"it could not be read":                      func(s *State, _ time.Time) { s.Readings = nil },
		"it was read 1m1s ago":                      func(s *State, now time.Time) { s.Readings[0].Time = now.Add(-61 * time.Second) },
		"its time is 1m1s in the future":            func(s *State, now time.Time) { s.Readings[0].Time = now.Add(61 * time.Second) },
		"it has no time":                            func(s *State, _ time.Time) { s.Readings[0].Time = time.Time{} },
		"its capacity is zero":                      func(s *State, _ time.Time) { s.Readings[0].Capacity, s.Readings[0].Available = 0, 0 },
		"5 of 4 are available":                      func(s *State, _ time.Time) { s.Readings[0].Available, s.Readings[0].Capacity = 5, 4 },
		"the threshold is more than the node has, ": func(s *State, _ time.Time) { s.Readings[0].Available, s.Readings[0].Capacity = 5, 6 },
	} {
		n := newNode(t, Policy{Hard: map[Signal]string{MemoryAvailable: "100Mi"}}, candidate("a", 0, 0, gi))
		n.has(MemoryAvailable, 5)
		n.state.Readings[0].Time = n.now
		break_(&n.state, n.now)
		d := Decide(n.rules, n.state, n.now)
		if len(d.Evict) > 0 || len(d.Met) > 0 || len(d.Problems) != 1 || !strings.Contains(d.Problems[0].String(), "memory.available<100Mi is not checked: "+want) {
			t.Errorf("%s:\n%v", want, d)
		}
	}
}

// Unused resources are reclaimed first. A pod is evicted only if that does not suffice.
func TestReclaim(t *testing.T) {
	n := newNode(t, Policy{}, candidate("a", 0, 0, gi))
	n.has(NodeFSAvailable, gi)
	n.after(0)
	n.wantEvicted()
	if got := fmt.Sprint(n.last.Reclaim); got != "[dead containers unused images]" {
		t.Errorf("removes %s, want %q", got, "[dead containers unused images]")
	}
	n.state.Reclaimed = true
	n.after(time.Second)
	n.wantEvicted("a")
	n.state.Layout, n.state.Reclaimed = ImageDisk, false
	n.after(time.Second)
	n.wantEvicted("a")
	for _, tc := range []struct {
		signal Signal
		on     Layout
		want   string
	}{
		{ImageFSAvailable, ImageDisk, "[dead containers unused images]"}, {ImageFSInodesFree, SplitDisk, "[unused images]"},
		{NodeFSInodesFree, SplitDisk, "[dead containers]"}, {ContainerFSAvailable, SplitDisk, "[dead containers]"},
		{ContainerFSAvailable, ImageDisk, "[dead containers unused images]"}, {MemoryAvailable, OneDisk, "[]"}, {PIDAvailable, OneDisk, "[]"},
	} {
		if got := fmt.Sprint(reclaims(tc.signal, tc.on)); got != tc.want {
			t.Errorf("%s on %v: %s, want %s", tc.signal, tc.on, got, tc.want)
		}
	}
}

// Memory pressure is handled before other pressures.
func TestDecideOrder(t *testing.T) {
	n := newNode(t, Policy{
		Hard: map[Signal]string{PIDAvailable: "50%", NodeFSAvailable: "50%"},
		Soft: map[Signal]string{MemoryAvailable: "50%"}, SoftGracePeriod: map[Signal]time.Duration{MemoryAvailable: time.Second},
	}, candidate("a", 0, 0, gi))
	for _, s := range []Signal{PIDAvailable, NodeFSAvailable, MemoryAvailable} {
		n.has(s, gi)
	}
	n.state.Layout = ImageDisk // this file system has nothing to remove
	n.after(0)
	if n.wantEvicted("a"); n.last.Evict[0].Signal != NodeFSAvailable {
		t.Errorf("%v, want %v", n.last, NodeFSAvailable)
	}
	n.after(time.Second)
	if n.wantEvicted("a"); n.last.Evict[0].Signal != MemoryAvailable {
		t.Errorf("%v, want %v", n.last, MemoryAvailable)
	}
	n.wantUnder(v1.NodeMemoryPressure, v1.NodeDiskPressure, v1.NodePIDPressure)
}

func TestOneAtATime(t *testing.T) {
	n := newNode(t, Policy{}, candidate("a", 0, 0, 2*gi), candidate("b", 0, 0, gi))
	n.has(MemoryAvailable, 0)
	n.after(0)
	n.wantEvicted("a")
	again := Decide(n.rules, n.state, n.now.Add(time.Second)) // with the same reading
	if len(again.Evict) > 0 || !strings.Contains(again.String(), "nothing was read since") {
		t.Errorf("by the same reading:\n%v", again)
	}
	n.state.Pods, n.state.Ending = n.state.Pods[1:], []types.UID{"a"}
	n.after(10 * time.Second)
	n.wantEvicted()
	if why := n.last.Explain("b"); why != "stays: a pod that was evicted has not ended" {
		t.Errorf("%v, want %q", why, "stays: a pod that was evicted has not ended")
	}
	n.state.Ending = nil
	n.after(10 * time.Second)
	n.wantEvicted("b")
}

// U16: after a clock is set back, pods are evicted before the clock has caught up.
func TestU16_ClockIsSetBack(t *testing.T) {
	n := newNode(t, Policy{}, candidate("a", 0, 0, 2*gi), candidate("b", 0, 0, gi))
	n.has(MemoryAvailable, 0)
	n.after(0)
	n.wantEvicted("a")
	n.state.Pods = n.state.Pods[1:]
	n.after(-time.Hour)
	n.wantEvicted("b")
}

func TestCriticalPodsStay(t *testing.T) {
	mirror, static := candidate("mirror", 0, 0, gi), candidate("static", 0, 0, gi)
	mirror.Pod.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"}
	static.Pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	n := newNode(t, Policy{}, mirror, static, candidate("critical", systemCritical, 0, gi), candidate("important", systemCritical-1, 0, 1))
	n.has(MemoryAvailable, 0)
	n.after(0)
	n.wantEvicted("important")
	if why := n.last.Explain("static"); why != "stays: it is critical" {
		t.Errorf("%v, want %q", why, "stays: it is critical")
	}
	n.state.Pods = n.state.Pods[:3]
	n.after(time.Second)
	n.wantEvicted()
}

func TestStorageLimits(t *testing.T) {
	sized := func(uid, volumeLimit, limit string, root, log, volume uint64) Candidate {
		c := candidate(uid, 0, 0, 0)
		if volumeLimit != "" {
			q := mustParse(t, volumeLimit)
			c.Pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &q}}}}
		}
		if limit != "" {
			c.Pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: mustParse(t, limit)}
		}
		c.Usage = &Usage{
			Containers: []ContainerUsage{{Name: "app", RootFS: DiskUsage{Bytes: &root}, Logs: DiskUsage{Bytes: &log}}},
			Volumes:    []VolumeUsage{{"v", DiskUsage{Bytes: &volume}}},
		}
		return c
	}
	other := sized("two", "", "10", 8, 4, 0)
	other.Pod.Spec.Containers = append(other.Pod.Spec.Containers, v1.Container{Name: "side", Resources: other.Pod.Spec.Containers[0].Resources})
	for _, tc := range []struct {
		name string
		pod  Candidate
		on   Layout
		want string
	}{
		{"a volume within its limit", sized("a", "10", "", 0, 0, 10), OneDisk, ""},
		{"a volume beyond", sized("a", "1Mi", "", 0, 0, mi+1), OneDisk, `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `},
		{"no limit", sized("a", "0", "", 0, 0, 10), OneDisk, ""},
		{"a pod within its limit", sized("a", "", "10", 5, 5, 0), OneDisk, ""},
		{"a pod beyond", sized("a", "100", "10", 5, 5, 1), OneDisk, "Pod ephemeral local storage usage exceeds the total limit of containers 10. "},
		{"a container beyond", other, OneDisk, `Container app exceeded its local ephemeral storage limit "10". `},
		{"what it writes is on another disk", other, ImageDisk, ""},
	} {
		n := newNode(t, Policy{}, tc.pod)
		n.state.Layout = tc.on
		n.after(0)
		var got string
		if len(n.last.Evict) > 0 {
			got = n.last.Evict[0].Message
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		n.rules.StorageLimits = false
		n.after(time.Second)
		n.wantEvicted()
	}
}

func TestExplain(t *testing.T) {
	n := newNode(t, Policy{}, candidate("a", 0, 0, 2*gi), candidate("b", 0, 0, gi))
	n.has(MemoryAvailable, gi)
	for want, d := range map[string]Decision{
		"stays: the node is short of nothing": n.after(0),
	} {
		if got := d.Explain("b"); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
	n.has(MemoryAvailable, 0)
	d := n.after(time.Second)
	if got := d.Explain("b"); got != "stays: 1 of 2 go before it, and one goes at a time" {
		t.Errorf("%v, want %q", got, "stays: 1 of 2 go before it, and one goes at a time")
	}
	if got := d.Explain("a"); !strings.HasPrefix(got, "evict default/a within 1 s: memory.available: The node was low on resource: memory.") {
		t.Error(got)
	}
	if got := d.Explain("c"); got != "stays: it does not run, or is ending" {
		t.Errorf("%v, want %q", got, "stays: it does not run, or is ending")
	}
	want := "tell MemoryPressure: kubelet has insufficient memory available\n"
	if got := d.String(); !strings.HasPrefix(got, want) || !strings.Contains(got, "met: memory.available<100Mi: 0 available\nevict default/a") {
		t.Errorf("%v, want it to begin with %v and %q in it", got, want, "met: memory.available<100Mi: 0 available\nevict default/a")
	}
}

func TestAdmit(t *testing.T) {
	under := func(names ...v1.NodeConditionType) (list []v1.NodeCondition) {
		for _, name := range names {
			list = append(list, v1.NodeCondition{Type: name, Status: v1.ConditionTrue})
		}
		return append(list, v1.NodeCondition{Type: v1.NodePIDPressure, Status: v1.ConditionFalse}, v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue})
	}
	bestEffort, tolerant := candidate("a", 0, 0, 0).Pod, candidate("b", 0, 0, 0).Pod
	bestEffort.Spec.Containers[0].Resources.Requests, tolerant.Spec.Containers[0].Resources.Requests = nil, nil
	tolerant.Spec.Tolerations = []v1.Toleration{{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}}
	burstable, critical := candidate("c", 0, 1, 0).Pod, candidate("d", systemCritical, 0, 0).Pod
	for _, tc := range []struct {
		pod  *v1.Pod
		node []v1.NodeCondition
		want string
	}{
		{bestEffort, under(), ""},
		{bestEffort, under(v1.NodeMemoryPressure), "The node had condition: [MemoryPressure]. "},
		{tolerant, under(v1.NodeMemoryPressure), ""},
		{burstable, under(v1.NodeMemoryPressure), ""},
		{burstable, under(v1.NodeDiskPressure), "The node had condition: [DiskPressure]. "},
		{tolerant, under(v1.NodeMemoryPressure, v1.NodeDiskPressure), "The node had condition: [MemoryPressure DiskPressure]. "},
		{critical, under(v1.NodeMemoryPressure, v1.NodeDiskPressure), ""},
	} {
		if got, ok := Admit(tc.pod, tc.node); got != tc.want || ok != (tc.want == "") {
			t.Errorf("%s: %q, %v, want %q", tc.pod.UID, got, ok, tc.want)
		}
	}
}
