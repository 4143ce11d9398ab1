package pinning_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/pinning"
	"github.com/podsync/podsync/syncpod/topology"
)

const gi = 1 << 30

// twoNodes is a machine with two NUMA nodes, which have four CPUs and 4 GiB each. CPU 0 and 1 GiB of node 0 are reserved.
func twoNodes(dir string) pinning.Config {
	c := pinning.Config{State: filepath.Join(dir, "state", "pinning.json"), CPUs: cpu.Config{Policy: cpu.Static, ReservedCount: 1}}
	for id := range 8 {
		c.CPUs.Topology.CPUs = append(c.CPUs.Topology.CPUs, cpu.CPU{ID: id, Core: id / 2, Node: id / 4, Socket: id / 4, Cache: id / 4})
	}
	c.Memory = numamemory.Config{Policy: numamemory.PolicyStatic, Nodes: []numamemory.Node{
		{ID: 0, Memory: 4 * gi, Reserved: map[v1.ResourceName]uint64{v1.ResourceMemory: gi}}, {ID: 1, Memory: 4 * gi},
	}}
	c.Topology = topology.Config{Policy: topology.PolicySingleNUMANode}
	return c
}

func manager(t *testing.T, c pinning.Config) *pinning.Manager {
	t.Helper()
	m, err := pinning.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// podOf returns a Guaranteed pod whose containers are written as app:2:1Gi. Those whose names begin with i are init containers.
func podOf(uid, containers string) *v1.Pod {
	pod := &v1.Pod{}
	pod.Name, pod.UID = uid, types.UID(uid)
	for word := range strings.FieldsSeq(containers) {
		part := strings.Split(word, ":")
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(part[1]), v1.ResourceMemory: resource.MustParse(part[2])}
		c := v1.Container{Name: part[0], Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
		if strings.HasPrefix(part[0], "i") {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// Each pod gets CPUs and memory of one NUMA node, or is refused with a kubelet's reason. A refused pod has nothing.
func TestAdmit(t *testing.T) {
	c := twoNodes(t.TempDir())
	m := manager(t, c)
	for _, step := range []struct {
		pod    *v1.Pod
		reason string
		cpuset runtime.CPUSet
	}{
		{podOf("a", "app:3:3Gi"), "", runtime.CPUSet{CPUs: "1-3", Mems: "0", Exclusive: true}},
		{podOf("b", "app:2:5Gi"), "UnexpectedAdmissionError", runtime.CPUSet{CPUs: "0,4-7"}},
		{podOf("c", "app:3:1Gi app2:2:1Gi"), "TopologyAffinityError", runtime.CPUSet{CPUs: "0,4-7"}},
		{podOf("d", "app:500m:1Gi"), "", runtime.CPUSet{CPUs: "0,4-7", Mems: "1"}},
		{podOf("e", "app:2:3Gi"), "", runtime.CPUSet{CPUs: "4-5", Mems: "1", Exclusive: true}},
		{podOf("f", "app:500m:1Gi"), "UnexpectedAdmissionError", runtime.CPUSet{CPUs: "0,6-7"}},
	} {
		reason := ""
		if refused := m.Admit(step.pod); refused != nil {
			reason = refused.Reason
		}
		if got := m.CPUSet(step.pod, "app"); reason != step.reason || got != step.cpuset {
			t.Errorf("pod %s: reason %q, %+v, want %q, %+v", step.pod.Name, reason, got, step.reason, step.cpuset)
		}
		before := m.CPUSet(step.pod, "app")
		if m = manager(t, c); m.CPUSet(step.pod, "app") != before {
			t.Errorf("after a restart pod %s has %+v, want %+v", step.pod.Name, m.CPUSet(step.pod, "app"), before)
		}
		if reason == "" && (m.Admit(step.pod) != nil || m.CPUSet(step.pod, "app") != before) {
			t.Errorf("pod %s does not keep its CPUs", step.pod.Name)
		}
	}
	for _, uid := range []types.UID{"a", "d", "e", "e"} {
		if err := m.RemovePod(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	if kept, err := m.KeptPods(); err != nil || len(kept) > 0 || m.CPUSet(podOf("x", ""), "app").CPUs != "0-7" {
		t.Errorf("after all pods were removed, %v, %v are left, and containers share %v", kept, err, m.CPUSet(podOf("x", ""), "app"))
	}
}

// A pod that was admitted keeps what it has: it is admitted again after a restart of the agent, when it may ask for more, and another
// pod may have the memory of its init container.
func TestAdmittedPodsKeepTheirs(t *testing.T) {
	c := twoNodes(t.TempDir())
	m := manager(t, c)
	first := podOf("a", "init:2:3Gi app:2:1Gi")
	if refused := m.Admit(first); refused != nil {
		t.Fatal(refused)
	}
	m.Starting(first, "app")
	if refused := m.Admit(podOf("b", "app:1:2Gi")); refused != nil {
		t.Fatal(refused)
	}
	before := m.CPUSet(first, "app")
	if m = manager(t, c); m.Admit(first) != nil || m.Admit(podOf("a", "init:2:3Gi app:3:2Gi")) != nil || m.CPUSet(first, "app") != before {
		t.Errorf("it has %v, and had %v", m.CPUSet(first, "app"), before)
	}
}

// Neither exclusive CPUs nor memory are resized.
func TestResize(t *testing.T) {
	m := manager(t, twoNodes(t.TempDir()))
	for containers, want := range map[string]string{"app:2:1Gi": "", "app:3:1Gi": "CPU policy", "app:2:2Gi": "memory"} {
		err := m.Resize(podOf("a", "app:2:1Gi"), podOf("a", containers))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("a resize to %s: %v, want %q", containers, err, want)
		}
	}
}

// An option refuses parts of cores.
func TestAdmitRefusesPartsOfCores(t *testing.T) {
	c := twoNodes(t.TempDir())
	c.CPUs.Options.FullPCPUsOnly, c.Topology.Policy = true, ""
	if refused := manager(t, c).Admit(podOf("a", "app:3:1Gi")); refused == nil || refused.Reason != "SMTAlignmentError" {
		t.Errorf("refused with %+v, want SMTAlignmentError", refused)
	}
}

// The memory of an init container is free once the next container starts.
func TestStartingFreesMemory(t *testing.T) {
	c := twoNodes(t.TempDir())
	c.Topology.Policy = ""
	m := manager(t, c)
	first := podOf("a", "init:1:3Gi app:1:1Gi")
	if refused := m.Admit(first); refused != nil {
		t.Fatal(refused)
	}
	m.Starting(first, "init")
	if second := podOf("b", "app:1:6Gi"); m.Admit(second) == nil {
		t.Error("the memory of an init container is free before its end")
	}
	m.Starting(first, "app")
	m = manager(t, c)
	if refused := m.Admit(podOf("c", "app:1:2Gi")); refused != nil || m.Memory("a", "init") != nil {
		t.Errorf("the memory of an init container that has ended is not free: %v, %v", refused, m.Memory("a", "init"))
	}
}

// A stored state that does not fit is an error that says why.
func TestNewRefuses(t *testing.T) {
	for want, change := range map[string]func(c *pinning.Config){
		"pinning: Config.State is \"\"":                                        func(c *pinning.Config) { c.State = "" },
		"pod a, container app: not all of the CPUs 2-3 can be allocated":       func(c *pinning.Config) { c.CPUs.Topology.CPUs = c.CPUs.Topology.CPUs[2:] },
		"pod a, container app: not all of the CPUs 2-3 can be allocated, only": func(c *pinning.Config) { c.CPUs.ReservedCount = 3 },
		"the policy none has no exclusive CPUs, and the state has 2-3":         func(c *pinning.Config) { c.CPUs.Policy = cpu.None },
		"NUMA node 1 has 3221225472 of memory for pods, and had 4294967296":    func(c *pinning.Config) { c.Memory.Nodes[1].Memory = 3 * gi },
		"NUMA node 0 has 0 of hugepages-2Mi for pods, and had":                 nil,
		"the machine has 1 NUMA nodes with memory for pods, and 2":             func(c *pinning.Config) { c.Memory.Nodes = c.Memory.Nodes[:1] },
		"the machine has 0 NUMA nodes with memory for pods, and 2":             func(c *pinning.Config) { c.Memory.Policy = "" },
		"the file has version 7, and this agent reads 1":                       func(c *pinning.Config) { overwrite(t, c.State, `{"version":7}`) },
		"more than 4194304 bytes":                                              func(c *pinning.Config) { overwrite(t, c.State, strings.Repeat(" ", 4<<20+1)) },
		"unexpected end of JSON input":                                         func(c *pinning.Config) { overwrite(t, c.State, `{"version":1,`) },
		"Config.Topology":                                                      func(c *pinning.Config) { c.Topology.Policy = "close" },
		"Config.Providers[0] is nil":                                           func(c *pinning.Config) { c.Providers = []pinning.Provider{nil} },
	} {
		c := twoNodes(t.TempDir())
		if change == nil {
			c.Memory.Nodes[0].HugePages = map[v1.ResourceName]uint64{"hugepages-2Mi": gi}
			change = func(c *pinning.Config) { c.Memory.Nodes[0].HugePages, c.Memory.Nodes[0].Memory = nil, 3*gi }
		}
		if refused := manager(t, c).Admit(podOf("a", "app:2:1Gi")); refused != nil {
			t.Fatal(refused)
		}
		change(&c)
		if _, err := pinning.New(c); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "pinning: ") {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func overwrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// provider gives pods what is close to NUMA node 1.
type provider struct {
	topology.Provider
	given   map[types.UID]topology.Hint
	asked   int
	removed []types.UID
}

func (p *provider) Hints(*v1.Pod, *v1.Container) topology.Hints {
	return topology.Hints{"example.com/card": {{Nodes: 2, Preferred: true}}}
}

func (p *provider) Allocate(pod *v1.Pod, _ *v1.Container, affinity topology.Hint) error {
	p.asked++
	if p.given[pod.UID] = affinity; pod.Name == "broken" {
		return errors.New("no card")
	}
	return nil
}

func (p *provider) RemovePod(_ context.Context, pod types.UID) error {
	p.removed = append(p.removed, pod)
	return nil
}

// CPUs are taken close to the resources of a Provider, which frees those of pods that are refused, also if the file cannot be written.
func TestProviders(t *testing.T) {
	c, cards := twoNodes(t.TempDir()), &provider{given: map[types.UID]topology.Hint{}}
	c.Providers = []pinning.Provider{cards}
	m := manager(t, c)
	if refused := m.Admit(podOf("a", "app:2:1Gi")); refused != nil || m.CPUs("a", "app").String() != "4-5" || cards.given["a"].Nodes != 2 {
		t.Errorf("refused with %v, CPUs %v, affinity %v", refused, m.CPUs("a", "app"), cards.given["a"])
	}
	if refused := m.Admit(podOf("a", "app:2:1Gi")); refused != nil || cards.asked != 2 {
		t.Errorf("a pod that was admitted before is refused with %v, and the provider was asked %d times", refused, cards.asked)
	}
	if refused := m.Admit(podOf("broken", "app:2:1Gi")); refused == nil || refused.Reason != "UnexpectedAdmissionError" {
		t.Errorf("a pod without a card is refused with %v", refused)
	}
	if refused := m.Admit(podOf("large", "app:3:1Gi")); refused == nil || refused.Reason != "TopologyAffinityError" {
		t.Errorf("a pod whose CPUs are not close to its card is refused with %v", refused)
	}
	if err := os.RemoveAll(filepath.Dir(c.State)); err != nil {
		t.Fatal(err)
	}
	overwrite(t, filepath.Dir(c.State), "")
	if refused := m.Admit(podOf("unwritten", "app:1:1Gi")); refused == nil || refused.Reason != "UnexpectedAdmissionError" || m.HasCPUs("unwritten") {
		t.Errorf("a pod that cannot be recorded is refused with %v", refused)
	}
	if len(cards.removed) != 3 {
		t.Errorf("cards of %v are free", cards.removed)
	}
	if err := m.RemovePod(t.Context(), "nothing"); err != nil || !slices.Contains(cards.removed, "nothing") {
		t.Errorf("%v, the cards of %v are free, want those of a pod that has ended", err, cards.removed)
	}
}
