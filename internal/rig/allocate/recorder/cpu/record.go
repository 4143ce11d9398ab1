package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/cpuset"
)

// A life is a machine and what the CPU manager decided about its pods, one after another.
type life struct {
	CPUs     [][5]int          `json:"cpus"` // ID, core, cache, node, socket
	Options  map[string]string `json:"options,omitempty"`
	Reserved string            `json:"reserved,omitempty"`
	Count    int               `json:"count"`
	Refused  string            `json:"refused,omitempty"` // the policy's options
	Shared   string            `json:"shared"`
	Free     string            `json:"free"`
	Steps    []step            `json:"steps,omitempty"`
}

// A step adds a pod, or removes a pod or one of its containers.
type step struct {
	Pod        string      `json:"pod"`
	Remove     string      `json:"remove,omitempty"` // a container, or * for the pod
	PodLevel   bool        `json:"podLevel,omitempty"`
	Containers []container `json:"containers,omitempty"`
	Hints      []hint      `json:"hints,omitempty"` // of the pod
	None       bool        `json:"none,omitempty"`  // no hints for the pod
	Shared     string      `json:"shared"`
}

type container struct {
	Name     string `json:"name"`
	Kind     string `json:"kind,omitempty"` // init or sidecar
	Request  string `json:"request"`
	Limit    string `json:"limit"`
	Asked    bool   `json:"asked,omitempty"`
	None     bool   `json:"none,omitempty"` // no hints
	Hints    []hint `json:"hints,omitempty"`
	Affinity uint64 `json:"affinity,omitempty"`
	CPUs     string `json:"cpus,omitempty"`
	Refused  string `json:"refused,omitempty"`
	Later    []hint `json:"later,omitempty"` // hints once it has its CPUs
}

type hint struct {
	Nodes     uint64 `json:"n"`
	Preferred bool   `json:"p,omitempty"`
}

// affinity is a topology manager that has decided.
type affinity struct {
	topologymanager.Store
	hint topologymanager.TopologyHint
}

func (a *affinity) GetAffinity(string, string) topologymanager.TopologyHint { return a.hint }
func (a *affinity) GetPolicy() topologymanager.Policy                       { return topologymanager.NewNonePolicy() }
func (a *affinity) Name() string                                            { return "recorder" }

var options = []string{cpumanager.FullPCPUsOnlyOption, cpumanager.DistributeCPUsAcrossNUMAOption, cpumanager.AlignBySocketOption,
	cpumanager.DistributeCPUsAcrossCoresOption, cpumanager.StrictCPUReservationOption, cpumanager.PreferAlignByUnCoreCacheOption}

func record(r *rand.Rand) (life, error) {
	log := logr.Discard()
	topo, err := topology.Discover(log, machine(r))
	if err != nil {
		return life{}, err
	}
	var l life
	ids := slices.Sorted(maps.Keys(topo.CPUDetails))
	for _, id := range ids {
		c := topo.CPUDetails[id]
		l.CPUs = append(l.CPUs, [5]int{id, c.CoreID, c.UncoreCacheID, c.NUMANodeID, c.SocketID})
	}
	l.Options = map[string]string{}
	for _, o := range options {
		if oneIn(r, 4) {
			l.Options[o] = pick(r, "true", "true", "true", "false")
		}
	}
	var reserved cpuset.CPUSet
	if oneIn(r, 2) {
		for range 1 + r.IntN(4) {
			reserved = reserved.Union(cpuset.New(ids[r.IntN(len(ids))]))
		}
		l.Reserved, l.Count = reserved.String(), reserved.Size()
	} else {
		l.Count = min(len(ids), r.IntN(5))
	}
	decided := &affinity{}
	policy, err := cpumanager.NewStaticPolicy(log, topo, l.Count, reserved, decided, l.Options)
	if err != nil {
		l.Refused = err.Error()
		return l, nil
	}
	st := state.NewMemoryState(log)
	if err := policy.Start(log, st); err != nil {
		return life{}, err
	}
	l.Shared, l.Free = st.GetDefaultCPUSet().String(), policy.GetAllocatableCPUs(st).String()

	alive := map[string][]container{}
	for i := range 2 + r.IntN(10) {
		names := slices.Sorted(maps.Keys(alive))
		if len(names) > 0 && oneIn(r, 3) {
			name := pick(r, names...)
			s := step{Pod: name, Remove: "*"}
			if oneIn(r, 3) {
				s.Remove = pick(r, alive[name]...).Name
			}
			for _, c := range alive[name] {
				if s.Remove == "*" || s.Remove == c.Name {
					if err := policy.RemoveContainer(log, st, name, c.Name); err != nil {
						return life{}, err
					}
				}
			}
			if s.Remove == "*" {
				delete(alive, name)
			}
			s.Shared = st.GetDefaultCPUSet().String()
			l.Steps = append(l.Steps, s)
			continue
		}
		s := step{Pod: fmt.Sprintf("p%d", i), PodLevel: oneIn(r, 30)}
		s.Containers = containers(r, len(ids))
		pod := s.pod()
		s.Hints, s.None = hints(policy.GetPodTopologyHints(log, st, pod))
		refused := false
		for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for j := range list {
				k := slices.IndexFunc(s.Containers, func(c container) bool { return c.Name == list[j].Name })
				c := &s.Containers[k]
				if refused {
					continue
				}
				c.Asked = true
				c.Hints, c.None = hints(policy.GetTopologyHints(log, st, pod, &list[j]))
				switch {
				case len(c.Hints) > 0 && oneIn(r, 2):
					c.Affinity = best(c.Hints)
				case len(c.Hints) > 0 && oneIn(r, 2):
					c.Affinity = pick(r, c.Hints...).Nodes
				case oneIn(r, 8):
					c.Affinity = 1 << topo.CPUDetails[pick(r, ids...)].NUMANodeID
				}
				decided.hint = topologymanager.TopologyHint{}
				if c.Affinity != 0 {
					decided.hint.NUMANodeAffinity = mask(c.Affinity)
				}
				if err := policy.Allocate(log, st, pod, &list[j]); err != nil {
					c.Refused = "UnexpectedAdmissionError"
					var typed interface{ Type() string }
					if errors.As(err, &typed) {
						c.Refused = typed.Type()
					}
					refused = true
					continue
				}
				if cpus, ok := st.GetCPUSet(string(pod.UID), c.Name); ok {
					c.CPUs = cpus.String()
					if oneIn(r, 4) {
						c.Later, _ = hints(policy.GetTopologyHints(log, st, pod, &list[j]))
					}
				}
			}
		}
		if refused {
			for _, c := range s.Containers {
				if err := policy.RemoveContainer(log, st, s.Pod, c.Name); err != nil {
					return life{}, err
				}
			}
		} else {
			alive[s.Pod] = s.Containers
		}
		s.Shared = st.GetDefaultCPUSet().String()
		l.Steps = append(l.Steps, s)
	}
	return l, nil
}

// best is the choice of a topology manager with one provider.
func best(hints []hint) uint64 {
	sorted := slices.Clone(hints)
	slices.SortStableFunc(sorted, func(a, b hint) int {
		switch {
		case a.Preferred != b.Preferred && a.Preferred:
			return -1
		case a.Preferred != b.Preferred:
			return 1
		case mask(a.Nodes).IsNarrowerThan(mask(b.Nodes)):
			return -1
		}
		return 1
	})
	return sorted[0].Nodes
}

func mask(nodes uint64) bitmask.BitMask {
	m, _ := bitmask.NewBitMask()
	for n := range 64 {
		if nodes>>n&1 == 1 {
			_ = m.Add(n)
		}
	}
	return m
}

func hints(given map[string][]topologymanager.TopologyHint) ([]hint, bool) {
	list, ok := given[string(v1.ResourceCPU)]
	var out []hint
	for _, h := range list {
		var nodes uint64
		for _, n := range h.NUMANodeAffinity.GetBits() {
			nodes |= 1 << n
		}
		out = append(out, hint{nodes, h.Preferred})
	}
	return out, !ok
}

// containers returns the containers of a random pod, most of which request exclusive CPUs.
func containers(r *rand.Rand, cpus int) []container {
	var list []container
	add := func(kind string) {
		n := 1 + r.IntN(4)
		switch r.IntN(6) {
		case 0:
			n = 1 + r.IntN(max(1, cpus))
		case 1, 2:
			n = 1 + r.IntN(max(1, cpus/3))
		case 3:
			n = pick(r, 2, 4, 8, 16)
		}
		c := container{Name: fmt.Sprintf("%s%d", strings.TrimSuffix("c-"+kind, "-"), len(list)), Kind: kind, Request: fmt.Sprint(n)}
		if oneIn(r, 12) {
			c.Request = pick(r, "500m", "1500m", "2000m")
		}
		c.Limit = c.Request
		if oneIn(r, 25) {
			c.Limit = "" // the pod is Burstable
		}
		list = append(list, c)
	}
	for range pick(r, 0, 0, 0, 1, 2, 3) {
		add(pick(r, "init", "init", "sidecar"))
	}
	for range pick(r, 1, 1, 1, 2, 3) {
		add("")
	}
	return list
}

func (s step) pod() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.Pod, UID: types.UID(s.Pod)}}
	if s.PodLevel {
		list := v1.ResourceList{v1.ResourceCPU: resource.MustParse("512"), v1.ResourceMemory: resource.MustParse("1Gi")}
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list, Limits: list}
	}
	always := v1.ContainerRestartPolicyAlways
	for _, c := range s.Containers {
		made := v1.Container{Name: c.Name}
		memory := resource.MustParse("64Mi")
		made.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(c.Request), v1.ResourceMemory: memory}
		if c.Limit != "" {
			made.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse(c.Limit), v1.ResourceMemory: memory}
		}
		if c.Kind == "sidecar" {
			made.RestartPolicy = &always
		}
		if c.Kind == "" {
			pod.Spec.Containers = append(pod.Spec.Containers, made)
		} else {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, made)
		}
	}
	return pod
}
