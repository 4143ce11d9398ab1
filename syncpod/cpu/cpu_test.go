package cpu_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/topology"
)

// machine has nodes of as many cores each, with two threads; one socket for each node.
func machine(nodes, cores int) cpu.Topology {
	var t cpu.Topology
	for id := range 2 * nodes * cores {
		core := id % (nodes * cores)
		t.CPUs = append(t.CPUs, cpu.CPU{ID: id, Core: core, Cache: core / cores, Node: core / cores, Socket: core / cores})
	}
	return t
}

func allocator(t testing.TB, c cpu.Config) *cpu.Allocator {
	t.Helper()
	c.Policy = cpu.Static
	a, err := cpu.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// guaranteed returns a pod whose containers request CPUs: "name 2", and "init name 2" or "sidecar name 2" for init containers.
func guaranteed(uid string, containers ...string) *v1.Pod {
	pod := &v1.Pod{}
	pod.UID = types.UID(uid)
	for _, text := range containers {
		words := strings.Fields(text)
		n := len(words)
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse(words[n-1]), v1.ResourceMemory: resource.MustParse("1Gi")}
		c := v1.Container{Name: words[n-2], Resources: v1.ResourceRequirements{Requests: list, Limits: list}}
		if n == 2 {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			continue
		}
		if words[0] == "sidecar" {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	return pod
}

// admit allocates the CPUs of a pod's containers, and returns them as text.
func admit(a *cpu.Allocator, s cpu.State, pod *v1.Pod) (cpu.State, string) {
	var got []string
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			cpus, err := a.Allocate(s, pod, &list[i], topology.Hint{})
			if err != nil {
				refusal := &topology.Refusal{}
				if !errors.As(err, &refusal) {
					return s, err.Error()
				}
				return s, strings.Join(append(got, refusal.Reason), " ")
			}
			s = s.With(pod.UID, list[i].Name, cpus)
			got = append(got, "["+cpus.String()+"]")
		}
	}
	return s, strings.Join(got, " ")
}

func TestAllocate(t *testing.T) {
	reserved, _ := cpu.SetOf(0)
	for name, tt := range map[string]struct {
		options    cpu.Options
		containers []string
		want       string
		shared     string
	}{
		"a part of a CPU is shared":                {containers: []string{"a 1500m", "b 2"}, want: "[] [1,9]", shared: "0,2-8,10-15"},
		"a whole node":                             {containers: []string{"a 8"}, want: "[4-7,12-15]", shared: "0-3,8-11"},
		"too many":                                 {containers: []string{"a 2", "b 14"}, want: "[1,9] UnexpectedAdmissionError", shared: "0,2-8,10-15"},
		"init containers pass their CPUs on":       {containers: []string{"init i 4", "init j 2", "a 2"}, want: "[1-2,9-10] [1,9] [1,9]", shared: "0,3-8,11-15"},
		"sidecars keep theirs":                     {containers: []string{"init i 2", "sidecar s 2", "a 2"}, want: "[1,9] [1,9] [2,10]", shared: "0,3-8,11-15"},
		"parts of cores are refused":               {options: cpu.Options{FullPCPUsOnly: true}, containers: []string{"a 3"}, want: "SMTAlignmentError", shared: "0-15"},
		"no thread beside a reserved one":          {options: cpu.Options{FullPCPUsOnly: true}, containers: []string{"a 14", "b 2"}, want: "[1-7,9-15] SMTAlignmentError", shared: "0,8"},
		"spread over cores":                        {options: cpu.Options{DistributeAcrossCores: true}, containers: []string{"a 3"}, want: "[1-3]", shared: "0,4-15"},
		"spread over nodes":                        {options: cpu.Options{DistributeAcrossNUMA: true}, containers: []string{"a 10"}, want: "[1-2,4-6,8-10,12-13]"},
		"reserved CPUs run no other container":     {options: cpu.Options{StrictReservation: true}, containers: []string{"a 2"}, want: "[1,9]", shared: "2-8,10-15"},
		"the rest of a request shares one cache":   {options: cpu.Options{PreferAlignByUncoreCache: true}, containers: []string{"a 6"}, want: "[4-6,12-14]", shared: "0-3,7-11,15"},
		"each container counts against the others": {containers: []string{"a 4", "b 4", "c 4"}, want: "[1-2,9-10] [3-4,11-12] [5-6,13-14]", shared: "0,7-8,15"},
	} {
		t.Run(name, func(t *testing.T) {
			a := allocator(t, cpu.Config{Topology: machine(2, 4), Options: tt.options, Reserved: reserved})
			s, got := admit(a, cpu.State{}, guaranteed("p", tt.containers...))
			if got != tt.want || tt.shared != "" && a.Shared(s).String() != tt.shared {
				t.Errorf("got %s, shared %s; want %s, shared %s", got, a.Shared(s), tt.want, tt.shared)
			}
			if err := a.Check(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOnlyIntegersOfGuaranteedPodsAreExclusive(t *testing.T) {
	static, none := allocator(t, cpu.Config{Topology: machine(1, 4)}), &cpu.Allocator{}
	pod := guaranteed("p", "a 2")
	burstable := guaranteed("p", "a 2")
	burstable.Spec.Containers[0].Resources.Limits = nil
	whole := guaranteed("p", "a 2")
	whole.Spec.Resources = &whole.Spec.Containers[0].Resources
	for _, tt := range []struct {
		a    *cpu.Allocator
		pod  *v1.Pod
		want int
	}{{static, pod, 2}, {none, pod, 0}, {static, burstable, 0}, {static, whole, 0}, {static, guaranteed("p", "a 2500m"), 0}, {static, guaranteed("p", "a 2000m"), 2}} {
		if got := tt.a.Exclusive(tt.pod, &tt.pod.Spec.Containers[0]); got != tt.want {
			t.Errorf("%d exclusive CPUs, want %d", got, tt.want)
		}
	}
}

// A machine with an offline thread has cores of different sizes. No container gets a reserved CPU, or one of another container.
func TestNoCPUIsGivenTwice(t *testing.T) {
	one, _ := cpu.SetOf(0)
	m := cpu.Topology{CPUs: []cpu.CPU{{ID: 0}, {ID: 1}, {ID: 2, Core: 2}, {ID: 3, Core: 3}}} // a core is 1 CPU on average
	a := allocator(t, cpu.Config{Topology: m, Reserved: one})
	if _, got := admit(a, cpu.State{}, guaranteed("p", "a 1", "b 2")); got != "[1] [2-3]" && got != "[2] [1,3]" {
		t.Errorf("got %s", got)
	}
	if _, got := admit(a, cpu.State{}, guaranteed("p", "a 3")); got != "[1-3]" {
		t.Errorf("got %s", got)
	}
}

// Values that are passed in stay as they are, and a second call returns the same CPUs.
func TestStateIsAValue(t *testing.T) {
	a := allocator(t, cpu.Config{Topology: machine(2, 4), ReservedCount: 1})
	first, _ := admit(a, cpu.State{}, guaranteed("p", "init i 4", "a 2"))
	text, _ := json.Marshal(first)
	if want := `{"pods":{"p":{"a":"1,9","i":"1-2,9-10"}}}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	admit(a, first, guaranteed("q", "a 2"))
	first.Without("p", "a")
	first.WithoutPod("p")
	if after, _ := json.Marshal(first); string(after) != string(text) {
		t.Errorf("the state was %s, and is %s", text, after)
	}
	var read cpu.State
	if err := json.Unmarshal(text, &read); err != nil || !reflect.DeepEqual(read, first) {
		t.Errorf("read %v (%v), want %v", read, err, first)
	}
	if _, again := admit(a, read, guaranteed("p", "init i 4", "a 2")); again != "[1-2,9-10] [1,9]" {
		t.Errorf("a second call returned %s", again)
	}
	if got := a.Shared(first.Without("p", "i")).String(); got != "0,2-8,10-15" {
		t.Errorf("without the init container, %s are shared", got)
	}
	if got := a.Shared(first.WithoutPod("p")); !reflect.DeepEqual(got, a.Shared(cpu.State{})) {
		t.Errorf("without the pod, %s are shared", got)
	}
}

func TestCheckRefusesStatesOfOtherMachines(t *testing.T) {
	a := allocator(t, cpu.Config{Topology: machine(2, 4), ReservedCount: 1})
	for text, fits := range map[string]bool{
		`{"pods":{"p":{"a":"1-2","i":"1"},"q":{"a":"3"}}}`: true,
		`{"pods":{"p":{"a":"16"}}}`:                        false,
		`{"pods":{"p":{"a":"0"}}}`:                         false,
		`{"pods":{"p":{"a":"1"},"q":{"a":"1"}}}`:           false,
	} {
		var s cpu.State
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if err := a.Check(s); (err == nil) != fits {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestResize(t *testing.T) {
	a := allocator(t, cpu.Config{Topology: machine(2, 4)})
	var refusal *topology.Refusal
	if err := a.Resize(guaranteed("p", "a 2"), guaranteed("p", "a 3")); !errors.As(err, &refusal) || refusal.Reason != v1.PodReasonInfeasible {
		t.Errorf("exclusive CPUs were resized: %v", err)
	}
	if err := a.Resize(guaranteed("p", "a 2"), guaranteed("p", "a 2")); err != nil {
		t.Error(err)
	}
	if err := (&cpu.Allocator{}).Resize(guaranteed("p", "a 2"), guaranteed("p", "a 3")); err != nil {
		t.Error(err)
	}
}

// A topology policy and a Draft align a pod with one NUMA node, and reject one that no node can hold.
func TestDraft(t *testing.T) {
	a := allocator(t, cpu.Config{Topology: machine(2, 4), ReservedCount: 1})
	nodes, _ := topology.MaskOf(0, 1)
	policy, err := topology.New(topology.Config{Policy: topology.PolicySingleNUMANode}, topology.Machine{Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	d := &cpu.Draft{Allocator: a}
	affinities, refusal := policy.Admit(guaranteed("p", "a 8"), d)
	if refusal != nil || affinities["a"].Nodes != 2 || a.CPUs(d.State, "p", "a").String() != "4-7,12-15" {
		t.Errorf("affinities %v, CPUs %s, %v", affinities, a.CPUs(d.State, "p", "a"), refusal)
	}
	if _, refusal := policy.Admit(guaranteed("q", "a 8"), d); refusal == nil || refusal.Reason != topology.ReasonAffinity {
		t.Errorf("refused with %v", refusal)
	}
	smt := &cpu.Draft{Allocator: allocator(t, cpu.Config{Topology: machine(2, 4), Options: cpu.Options{FullPCPUsOnly: true}})}
	if _, refusal := policy.Admit(guaranteed("q", "a 3"), smt); refusal == nil || refusal.Reason != cpu.ReasonSMT {
		t.Errorf("refused with %v", refusal)
	}
}

func TestNewRefuses(t *testing.T) {
	outside, _ := cpu.SetOf(99)
	small := cpu.Topology{CPUs: []cpu.CPU{{ID: 0, Core: 0, Socket: 0}, {ID: 1, Core: 1, Socket: 1}}}
	for field, c := range map[string]cpu.Config{
		"Policy":                         {Policy: "dynamic"},
		"policy none":                    {Options: cpu.Options{FullPCPUsOnly: true}},
		"no CPU":                         {Policy: cpu.Static},
		"CPU -1":                         {Policy: cpu.Static, Topology: cpu.Topology{CPUs: []cpu.CPU{{ID: -1}}}},
		"twice":                          {Policy: cpu.Static, Topology: cpu.Topology{CPUs: []cpu.CPU{{}, {}}}},
		"NUMA node 64":                   {Policy: cpu.Static, Topology: cpu.Topology{CPUs: []cpu.CPU{{Node: 64}}}},
		"two places":                     {Policy: cpu.Static, Topology: cpu.Topology{CPUs: []cpu.CPU{{}, {ID: 1, Node: 1}}}},
		"Reserved":                       {Policy: cpu.Static, Topology: machine(1, 1), Reserved: outside},
		"ReservedCount":                  {Policy: cpu.Static, Topology: machine(1, 1), ReservedCount: 3},
		"AlignBySocket":                  {Policy: cpu.Static, Topology: small, Options: cpu.Options{AlignBySocket: true}},
		"FullPCPUsOnly and Distribute":   {Policy: cpu.Static, Topology: small, Options: cpu.Options{FullPCPUsOnly: true, DistributeAcrossCores: true}},
		"NUMA and DistributeAcrossCores": {Policy: cpu.Static, Topology: small, Options: cpu.Options{DistributeAcrossNUMA: true, DistributeAcrossCores: true}},
	} {
		if _, err := cpu.New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := cpu.ParseOptions(map[string]string{"full-pcpus-only": "true", "x": "true"}); err == nil {
		t.Error("an unknown option was accepted")
	}
	if _, err := cpu.ParseOptions(map[string]string{"full-pcpus-only": "yes"}); err == nil {
		t.Error("yes was accepted as a boolean")
	}
}

func TestParseSet(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0-3,8\n": "0-3,8", "3,1,2": "1-3", "64,63": "63-64", "8191": "8191", "0-8191": "0-8191", "5-5": "5",
		"8192": "!", "-1": "!", "3-1": "!", "a": "!", "1,,2": "!", "0-99999999999": "!", "1-": "!", "+1": "!",
	} {
		got, err := cpu.ParseSet(text)
		if (err != nil) != (want == "!") || err == nil && got.String() != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}

// sysfs has two sockets, each a NUMA node with two cores and an L3 cache. CPU 5 is offline.
func sysfs() fstest.MapFS {
	files := fstest.MapFS{}
	write := func(name, text string) { files["devices/system/"+name] = &fstest.MapFile{Data: []byte(text + "\n")} }
	write("cpu/online", "0-4,6-7")
	write("node/node0/cpulist", "0-1,4-5")
	write("node/node1/cpulist", "2-3,6-7")
	for id := range 8 {
		dir := fmt.Sprintf("cpu/cpu%d/", id)
		write(dir+"topology/physical_package_id", fmt.Sprint(id%4/2))
		write(dir+"topology/thread_siblings_list", fmt.Sprintf("%d,%d", id%4, id%4+4))
		write(dir+"cache/index0/level", "1")
		write(dir+"cache/index1/level", "3")
		write(dir+"cache/index1/id", fmt.Sprint(10+id%4/2))
	}
	return files
}

func TestReadSysfs(t *testing.T) {
	got, err := cpu.Read(sysfs())
	want := cpu.Topology{CPUs: []cpu.CPU{{0, 0, 10, 0, 0}, {1, 1, 10, 0, 0}, {2, 2, 11, 1, 1}, {3, 3, 11, 1, 1}, {4, 0, 10, 0, 0}, {6, 2, 11, 1, 1}, {7, 3, 11, 1, 1}}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	bare := sysfs()
	for name := range bare {
		if strings.Contains(name, "/node/") || strings.Contains(name, "/cache/") {
			delete(bare, name)
		}
	}
	if got, err := cpu.Read(bare); err != nil || got.CPUs[2] != (cpu.CPU{ID: 2, Core: 2, Cache: 1, Socket: 1}) {
		t.Errorf("without nodes and caches: %v, %v", got, err)
	}
	for name, text := range map[string]string{
		"cpu/online": "0-x", "node/node0/cpulist": "9999", "cpu/cpu0/topology/physical_package_id": "first",
		"cpu/cpu0/topology/thread_siblings_list": strings.Repeat("0,", 64<<10), "cpu/cpu0/cache/index1/id": "",
	} {
		files := sysfs()
		files["devices/system/"+name] = &fstest.MapFile{Data: []byte(text)}
		if got, err := cpu.Read(files); err == nil {
			t.Errorf("%s %.20q: %v", name, text, got)
		}
	}
	if _, err := cpu.Read(fstest.MapFS{}); err == nil {
		t.Error("an empty tree was read")
	}
}

func BenchmarkAllocate(b *testing.B) {
	for _, bench := range []struct {
		name         string
		nodes, cores int
		options      cpu.Options
		request      string
	}{
		{"64", 2, 16, cpu.Options{}, "a 6"},
		{"64 distributed", 2, 16, cpu.Options{DistributeAcrossNUMA: true}, "a 20"},
		{"512", 8, 32, cpu.Options{}, "a 6"},
		{"512 distributed", 8, 32, cpu.Options{DistributeAcrossNUMA: true}, "a 203"},
		{"512 none requested", 8, 32, cpu.Options{}, "a 1500m"},
	} {
		a := allocator(b, cpu.Config{Topology: machine(bench.nodes, bench.cores), Options: bench.options, ReservedCount: 2})
		var s cpu.State
		for i := range 10 {
			s, _ = admit(a, s, guaranteed(fmt.Sprint(i), "a 3"))
		}
		pod := guaranteed("new", bench.request)
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Allocate(s, pod, &pod.Spec.Containers[0], topology.Hint{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(bench.name+" hints", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Hints(s, pod, &pod.Spec.Containers[0])
			}
		})
	}
}

// Two nodes are fewer than a request of this size needs on average, so their CPUs are packed, and not distributed.
func TestDistributeInsideAnAffinity(t *testing.T) {
	var m cpu.Topology
	for core, node := range []int{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3} {
		for thread := range 2 {
			m.CPUs = append(m.CPUs, cpu.CPU{ID: 2*core + thread, Core: core, Cache: node, Node: node, Socket: node})
		}
	}
	a := allocator(t, cpu.Config{Topology: m, Options: cpu.Options{DistributeAcrossNUMA: true}})
	pod := guaranteed("p", "a 18")
	if got, err := a.Allocate(cpu.State{}, pod, &pod.Spec.Containers[0], topology.Hint{Nodes: 3}); err != nil || got.String() != "0-17" {
		t.Errorf("%s, %v", got, err)
	}
}
