package numamemory_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/topology"
)

const gi = 1 << 30

// machine returns NUMA nodes with 4 GiB each, and 1 GiB of it reserved on the first.
func machine(t *testing.T, nodes int) numamemory.State {
	t.Helper()
	c := numamemory.Config{Policy: numamemory.PolicyStatic, Reserved: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}
	for i := range nodes {
		c.Nodes = append(c.Nodes, numamemory.Node{ID: i, Memory: 4 * gi})
	}
	c.Nodes[0].Reserved = map[v1.ResourceName]uint64{v1.ResourceMemory: gi}
	s := must.Get(numamemory.New(c))(t)
	return s
}

func container(name, memory string) v1.Container {
	list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse(memory)}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
}

func podOf(uid types.UID, containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: v1.PodSpec{Containers: containers}}
}

func allocate(t *testing.T, s numamemory.State, pod *v1.Pod, h topology.Hint) numamemory.State {
	t.Helper()
	a := &numamemory.Admission{State: s}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			must.Do(t, a.Allocate(pod, &list[i], h))
		}
	}
	return a.State
}

// The State before an allocation stays as it was, and the State after a release is equal to it.
func TestStatesAreValues(t *testing.T) {
	empty := machine(t, 2)
	before := must.Get(json.Marshal(empty))(t)
	pod := podOf("p", container("a", "5Gi"), container("b", "1Gi"))
	pod.Spec.InitContainers = []v1.Container{container("i", "6Gi")}
	full := allocate(t, empty, pod, topology.Hint{Nodes: 3})
	var stored numamemory.State
	text, err := json.Marshal(full)
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err != nil || !reflect.DeepEqual(stored, full) {
		t.Errorf("stored as %s, error %v", text, err)
	}
	full.Started(pod, "a")
	after := must.Get(json.Marshal(full.Release("p")))(t)
	for name, got := range map[string]any{"before": empty, "full": stored} {
		want := map[string]string{"before": string(before), "full": string(text)}[name]
		if now, err := json.Marshal(got); err != nil || string(now) != want {
			t.Errorf("%s was %s, is %s", name, want, now)
		}
	}
	if got := strings.Replace(string(after), `,"pods":{}`, "", 1); got != string(before) {
		t.Errorf("after the release %s, want %s", got, before)
	}
}

// Init containers end before the next container starts, so that it reuses their memory, and the rest is free after its start.
func TestInitContainersLeaveTheirMemory(t *testing.T) {
	pod := podOf("p", container("app", "1Gi"))
	pod.Spec.InitContainers = []v1.Container{container("i0", "2Gi"), container("i1", "3Gi")}
	s := allocate(t, machine(t, 1), pod, topology.Hint{})
	if free := s.Nodes[0].Amounts[v1.ResourceMemory].Free; free != 0 {
		t.Errorf("%d bytes are free of 3 GiB", free)
	}
	if free := s.Started(pod, "app").Nodes[0].Amounts[v1.ResourceMemory].Free; free != 2*gi {
		t.Errorf("%d bytes are free after the start of app, want 2 GiB", free)
	}
}

// Node 0 belongs to a group, so no container gets memory from it alone, even if the topology manager chose it before.
func TestGroupsKeepTheirNodes(t *testing.T) {
	s := allocate(t, machine(t, 3), podOf("group", container("c", "5Gi")), topology.Hint{Nodes: 3})
	small := podOf("small", container("c", "1Gi"))
	for _, c := range []struct {
		hint  topology.Hint
		nodes topology.Mask
		err   error
	}{
		{topology.Hint{Nodes: 1}, 3, nil},
		{topology.Hint{Nodes: 1, Preferred: true}, 0, numamemory.ErrExtendsPreferred},
		{topology.Hint{Nodes: 5}, 0, numamemory.ErrGroup},
		{topology.Hint{Nodes: 4, Preferred: true}, 4, nil},
		{topology.Hint{}, 4, nil},
	} {
		next, err := s.Allocate(small, &small.Spec.Containers[0], c.hint)
		var nodes topology.Mask
		for _, b := range next.Container("small", "c") {
			nodes = b.Nodes
		}
		if !errors.Is(err, c.err) || nodes != c.nodes {
			t.Errorf("%v: nodes %v, error %v; want %v, %v", c.hint, nodes, err, c.nodes, c.err)
		}
	}
}

// Pods that ask for no memory of their own change nothing.
func TestOtherPodsGetNone(t *testing.T) {
	s := machine(t, 2)
	burstable := podOf("b", container("c", "1Gi"))
	burstable.Spec.Containers[0].Resources.Limits = nil
	whole := podOf("w", container("c", "1Gi"))
	whole.Spec.Resources = &whole.Spec.Containers[0].Resources
	for _, pod := range []*v1.Pod{burstable, whole, podOf("e", v1.Container{Name: "c"})} {
		next, err := s.Allocate(pod, &pod.Spec.Containers[0], topology.Hint{})
		if hints := s.Hints(pod, nil); err != nil || !reflect.DeepEqual(next, s) || hints != nil {
			t.Errorf("pod %s: hints %v, state %+v, error %v", pod.UID, hints, next, err)
		}
	}
	var none numamemory.State
	pod := podOf("p", container("c", "1Gi"))
	if next, err := none.Allocate(pod, &pod.Spec.Containers[0], topology.Hint{}); err != nil || !reflect.DeepEqual(next, none) {
		t.Errorf("policy None: %+v, error %v", next, err)
	}
}

func TestNewRefuses(t *testing.T) {
	one := func(n numamemory.Node) numamemory.Config {
		return numamemory.Config{Policy: "Static", Nodes: []numamemory.Node{n}}
	}
	memory := map[v1.ResourceName]uint64{v1.ResourceMemory: gi}
	differs := one(numamemory.Node{Memory: 2 * gi, Reserved: memory})
	differs.Reserved = v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Gi")}
	twice := one(numamemory.Node{Memory: gi})
	twice.Nodes = append(twice.Nodes, twice.Nodes[0])
	for want, c := range map[string]numamemory.Config{
		`memoryManagerPolicy "static"`: {Policy: "static"},
		"needs reserved memory":        one(numamemory.Node{Memory: gi}),
		"is not from 0 to 63":          one(numamemory.Node{ID: 64}),
		"more than 16":                 {Policy: "Static", Nodes: make([]numamemory.Node, 17)},
		"listed twice":                 twice,
		"1073741824 of memory are":     one(numamemory.Node{Memory: gi - 1, Reserved: memory}),
		"exceed the memory":            one(numamemory.Node{Memory: gi, HugePages: map[v1.ResourceName]uint64{"hugepages-1Gi": 2 * gi}}),
		"is no resource of huge pages": one(numamemory.Node{HugePages: memory}),
		"and the node 2147483648":      differs,
	} {
		if s, err := numamemory.New(c); err == nil || !strings.Contains(err.Error(), want) || s.Nodes != nil {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func BenchmarkHints(b *testing.B) {
	for _, c := range []struct {
		name  string
		nodes int
	}{{"2", 2}, {"8", 8}} {
		b.Run(c.name, func(b *testing.B) {
			config := numamemory.Config{Policy: "Static"}
			for i := range c.nodes {
				config.Nodes = append(config.Nodes, numamemory.Node{ID: i, Memory: 4 * gi, Reserved: map[v1.ResourceName]uint64{v1.ResourceMemory: gi}})
			}
			s := must.Get(numamemory.New(config))(b)
			pod := podOf("p", container("c", "2Gi"))
			for b.Loop() {
				s.Hints(pod, &pod.Spec.Containers[0])
			}
		})
	}
}
