package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/topology"
)

// cpuLife is a machine, and what the CPU manager of kubelet v1.36.2 decided about its pods, one after another.
type cpuLife struct {
	CPUs     [][5]int // ID, core, cache, node, socket
	Options  map[string]string
	Reserved cpu.Set
	Count    int
	Refused  string // why the kubelet does not run with these options
	Shared   cpu.Set
	Free     cpu.Set
	Steps    []cpuStep
}

// cpuStep adds a pod, or removes a pod or one of its containers.
type cpuStep struct {
	Pod        types.UID
	Remove     string // a container, or * for the pod
	PodLevel   bool
	Containers []cpuContainer
	Hints      []cpuHint
	None       bool
	Shared     cpu.Set
}

type cpuContainer struct {
	Name, Kind, Request, Limit string
	Asked                      bool // not after a refusal
	None                       bool
	Hints                      []cpuHint
	Affinity                   topology.Mask
	CPUs                       cpu.Set
	Refused                    string
	Later                      []cpuHint // once it has its CPUs
}

type cpuHint struct {
	Nodes     topology.Mask `json:"n"`
	Preferred bool          `json:"p"`
}

// takesTaken: on a machine whose cores or sockets have different sizes, for example because CPUs are offline, a kubelet takes a whole core that is
// not free: it gives a container CPUs that are reserved, that another container has alone, or that are far from the NUMA nodes chosen for it.
// The rest of the record is not comparable.
const takesTaken = "takesTaken"

// equallyEven: with distribute-cpus-across-numa, podsync takes the first of the splits that are equally even, and a kubelet sometimes a later
// one. The rest of the record is not comparable.
const equallyEven = "equallyEven"

// checkCPU compares one recorded line with podsync's decisions about the same pods.
func checkCPU(line []byte) (outcome, error) {
	var c struct {
		Name string
		Case cpuLife
	}
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("cpu: %w", err)
	}
	if c.Name == "" || len(c.Case.CPUs) == 0 {
		return outcome{}, errors.New("cpu: the line has no name or no CPUs")
	}
	diff, err := c.Case.replay()
	if diff == takesTaken || diff == equallyEven {
		return outcome{name: c.Name, deviation: diff}, err
	}
	return outcome{name: c.Name, diff: diff}, err
}

// replay returns the first difference.
func (l *cpuLife) replay() (string, error) {
	options, err := cpu.ParseOptions(l.Options)
	if err != nil {
		return "", err
	}
	config := cpu.Config{Policy: cpu.Static, Options: options, Reserved: l.Reserved, ReservedCount: l.Count}
	for _, c := range l.CPUs {
		config.Topology.CPUs = append(config.Topology.CPUs, cpu.CPU{ID: c[0], Core: c[1], Cache: c[2], Node: c[3], Socket: c[4]})
	}
	a, err := cpu.New(config)
	if l.Refused != "" || err != nil {
		return differs("options", l.Refused != "", err != nil), nil
	}
	var s cpu.State
	if d := cmp.Or(differs("allocatable", l.Free, a.Allocatable()), differs("shared", l.Shared, a.Shared(s))); d != "" {
		return d, nil
	}
	for i := range l.Steps {
		var d string
		if s, d, err = l.Steps[i].replay(l, a, s); err != nil || d != "" {
			if d == takesTaken || d == equallyEven {
				return d, nil
			}
			return fmt.Sprintf("step %d, pod %s: %s", i, l.Steps[i].Pod, d), err
		}
	}
	return "", nil
}

func (step *cpuStep) replay(l *cpuLife, a *cpu.Allocator, s cpu.State) (cpu.State, string, error) {
	switch step.Remove {
	case "":
	case "*":
		s = s.WithoutPod(step.Pod)
		return s, differs("shared", step.Shared, a.Shared(s)), nil
	default:
		s = s.Without(step.Pod, step.Remove)
		return s, differs("shared", step.Shared, a.Shared(s)), nil
	}
	pod, err := step.pod()
	if err != nil {
		return s, "", err
	}
	if d := differsHints("hints", step.Hints, step.None, a.Hints(s, pod, nil)); d != "" {
		return s, d, nil
	}
	before := s
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			want := step.Containers[slices.IndexFunc(step.Containers, func(c cpuContainer) bool { return c.Name == list[i].Name })]
			if !want.Asked {
				continue
			}
			if d := differsHints(want.Name+" hints", want.Hints, want.None, a.Hints(s, pod, &list[i])); d != "" {
				return s, d, nil
			}
			free := step.free(a, s)
			if aligned := l.aligned(want.Affinity).Intersect(free); !free.Contains(want.CPUs) || aligned.Len() >= want.CPUs.Len() && !aligned.Contains(want.CPUs) {
				return s, takesTaken, nil
			}
			got, err := a.Allocate(s, pod, &list[i], topology.Hint{Nodes: want.Affinity})
			reason := ""
			if refusal := (*topology.Refusal)(nil); errors.As(err, &refusal) {
				reason = refusal.Reason
			}
			if l.Options["distribute-cpus-across-numa"] == "true" && !got.Equal(want.CPUs) && l.unevenness(free.Minus(got)) == l.unevenness(free.Minus(want.CPUs)) {
				return s, equallyEven, nil
			}
			if d := cmp.Or(differs(want.Name+" refused", want.Refused, reason), differs(want.Name, want.CPUs, got)); d != "" {
				return s, d, nil
			}
			if s = s.With(pod.UID, want.Name, got); want.Later != nil {
				if d := differsHints(want.Name+" later", want.Later, false, a.Hints(s, pod, &list[i])); d != "" {
					return s, d, nil
				}
			}
			if reason != "" {
				return before, differs("shared", step.Shared, a.Shared(before)), nil
			}
		}
	}
	return s, differs("shared", step.Shared, a.Shared(s)), a.Check(s)
}

// free returns the CPUs that the pod's next container could have alone.
func (step *cpuStep) free(a *cpu.Allocator, s cpu.State) cpu.Set {
	free, own := a.Shared(s), cpu.Set{}
	for _, c := range step.Containers {
		if c.Kind == "init" {
			free = free.Union(s.Of(step.Pod, c.Name))
		} else {
			own = own.Union(s.Of(step.Pod, c.Name))
		}
	}
	return free.Minus(own).Intersect(a.Allocatable())
}

// aligned returns the CPUs that are close to NUMA nodes; all if there is no affinity.
func (l *cpuLife) aligned(nodes topology.Mask) cpu.Set {
	near, sockets := cpu.Set{}, map[int]bool{}
	for _, c := range l.CPUs {
		sockets[c[4]] = sockets[c[4]] || nodes.Has(c[3])
	}
	for _, c := range l.CPUs {
		if nodes == 0 || nodes.Has(c[3]) || l.Options["align-by-socket"] == "true" && sockets[c[4]] {
			one, _ := cpu.SetOf(c[0])
			near = near.Union(one)
		}
	}
	return near
}

// unevenness is smaller if CPUs are more even over the NUMA nodes.
func (l *cpuLife) unevenness(cpus cpu.Set) int {
	nodes := map[int]int{}
	for _, c := range l.CPUs {
		if cpus.Has(c[0]) {
			nodes[c[3]]++
		}
	}
	sum := 0
	for _, n := range nodes {
		sum += n * n
	}
	return sum
}

func differs(where string, kubelet, podsync any) string {
	if k, p := fmt.Sprint(kubelet), fmt.Sprint(podsync); k != p {
		return fmt.Sprintf("%s: kubelet %q, podsync %q\n", where, k, p)
	}
	return ""
}

func differsHints(where string, want []cpuHint, none bool, got topology.Hints) string {
	hints, asked := got[v1.ResourceCPU]
	var list []cpuHint
	for _, h := range hints {
		list = append(list, cpuHint{h.Nodes, h.Preferred})
	}
	for _, l := range [][]cpuHint{list, want} {
		slices.SortFunc(l, func(a, b cpuHint) int { return cmp.Compare(a.Nodes, b.Nodes) })
	}
	return differs(where, fmt.Sprint(!none, want), fmt.Sprint(asked, list))
}

func (step *cpuStep) pod() (*v1.Pod, error) {
	pod := &v1.Pod{}
	pod.UID = step.Pod
	if step.PodLevel {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("512"), v1.ResourceMemory: resource.MustParse("1Gi")}
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
	}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range step.Containers {
		made := v1.Container{Name: c.Name}
		var err error
		if made.Resources.Requests, err = cpuResources(c.Request); err != nil {
			return nil, err
		}
		if c.Limit != "" {
			if made.Resources.Limits, err = cpuResources(c.Limit); err != nil {
				return nil, err
			}
		}
		switch c.Kind {
		case "":
			pod.Spec.Containers = append(pod.Spec.Containers, made)
			continue
		case "sidecar":
			made.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
	}
	return pod, nil
}

func cpuResources(text string) (v1.ResourceList, error) {
	q, err := resource.ParseQuantity(text)
	return v1.ResourceList{v1.ResourceCPU: q, v1.ResourceMemory: resource.MustParse("64Mi")}, err
}
