package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/topology"
)

// memoryCase is a random machine with pods that come and go, and the decisions of a kubelet's memory manager and topology manager.
type memoryCase struct {
	Name string `json:"name"`
	Case struct {
		Machine  machineRecord `json:"machine"`
		Nodes    []nodeRecord  `json:"nodes"`
		Topology string        `json:"topology"`
		Scope    string        `json:"scope"`
		Closest  bool          `json:"closest"`
		Initial  []nodeAmounts `json:"initial"`
		Steps    []memoryStep  `json:"steps"`
	} `json:"case"`
}

// groupServesAlone is a rule by which podsync differs: a kubelet gives a container memory from one node alone while other containers have
// memory from a group with this node, if the topology manager chose the node before it belonged to the group. Both could then use
// more than the node has.
const groupServesAlone = "a NUMA node in a group gives no container memory alone"

type nodeRecord struct {
	ID        int                        `json:"id"`
	Memory    uint64                     `json:"memory"`
	HugePages map[uint64]uint64          `json:"hugePages"` // number of pages by size in KiB
	Reserved  map[v1.ResourceName]uint64 `json:"reserved"`
}

// nodeAmounts has the amounts allocatable, reserved and free by resource.
type nodeAmounts struct {
	Assignments int                           `json:"n"`
	Cells       topology.Mask                 `json:"cells"`
	Memory      map[v1.ResourceName][3]uint64 `json:"memory"`
}

type blockRecord struct {
	Nodes topology.Mask   `json:"nodes"`
	Type  v1.ResourceName `json:"type"`
	Size  uint64          `json:"size"`
}

// memoryStep admits a pod, starts a container or removes a pod. A kubelet admits a pod again after a restart.
type memoryStep struct {
	Op        string                             `json:"op"`
	UID       types.UID                          `json:"uid"`
	Pod       *v1.Pod                            `json:"pod"`
	Container string                             `json:"container"`
	Device    map[string]map[string][]hintRecord `json:"device"`
	Fails     string                             `json:"fails"`

	memoryAnswer
}

type memoryAnswer struct {
	Hints    []map[string][]hintRecord `json:"hints"`
	Reason   string                    `json:"reason"`
	Error    string                    `json:"error"`
	Affinity map[string]hintRecord     `json:"affinity"`
	Blocks   map[string][]blockRecord  `json:"blocks"`
	After    []nodeAmounts             `json:"after"`
}

// recordedDevice is another provider of hints.
type recordedDevice struct{ step *memoryStep }

func (d recordedDevice) Hints(_ *v1.Pod, c *v1.Container) topology.Hints {
	if c == nil {
		return hints(d.step.Device[""])
	}
	return hints(d.step.Device[c.Name])
}

func (d recordedDevice) Allocate(_ *v1.Pod, c *v1.Container, _ topology.Hint) error {
	if c.Name == d.step.Fails {
		return errors.New("no device")
	}
	return nil
}

// heardMemory keeps the hints that the memory manager has returned.
type heardMemory struct {
	numamemory.Admission
	heard []map[string][]hintRecord
	// alone means that a node in a group was to give a container memory alone.
	alone bool
}

func (m *heardMemory) Allocate(pod *v1.Pod, c *v1.Container, h topology.Hint) error {
	for _, n := range m.State.Nodes {
		m.alone = m.alone || h.Nodes == 1<<n.ID && n.Blocks > 0 && n.Group != h.Nodes
	}
	return m.Admission.Allocate(pod, c, h)
}

func (m *heardMemory) Hints(pod *v1.Pod, c *v1.Container) topology.Hints {
	answer := m.Admission.Hints(pod, c)
	all := map[string][]hintRecord{}
	for name, list := range answer {
		for _, h := range list {
			all[string(name)] = append(all[string(name)], hintRecord(h))
		}
	}
	m.heard = append(m.heard, all)
	return answer
}

func checkMemory(line []byte) (outcome, error) {
	var c memoryCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("numamemory: %w", err)
	}
	if c.Name == "" || len(c.Case.Steps) == 0 {
		return outcome{}, errors.New("numamemory: the line has no name or steps")
	}
	o, err := c.compare()
	if err != nil {
		err = fmt.Errorf("numamemory %s: %w", c.Name, err)
	}
	return o, err
}

func (c *memoryCase) compare() (outcome, error) {
	o := outcome{name: c.Name}
	machine, err := c.Case.Machine.machine()
	if err != nil {
		return o, err
	}
	policy, err := topology.New(topology.Config{Policy: c.Case.Topology, Scope: c.Case.Scope, PreferClosest: c.Case.Closest}, machine)
	if err != nil {
		return o, err
	}
	config := numamemory.Config{Policy: numamemory.PolicyStatic}
	for _, n := range c.Case.Nodes {
		pages := map[v1.ResourceName]uint64{}
		for kib, count := range n.HugePages {
			pages[map[uint64]v1.ResourceName{2048: "hugepages-2Mi", 1048576: "hugepages-1Gi"}[kib]] = count * kib * 1024
		}
		config.Nodes = append(config.Nodes, numamemory.Node{ID: n.ID, Memory: n.Memory, HugePages: pages, Reserved: n.Reserved})
	}
	state, err := numamemory.New(config)
	if err != nil {
		return o, err
	}
	if o.diff = differ("initial", c.Case.Initial, amounts(state)); o.diff != "" {
		return o, nil
	}
	pods := map[types.UID]*v1.Pod{}
	for i := range c.Case.Steps {
		step := &c.Case.Steps[i]
		var got memoryAnswer
		alone := false
		switch step.Op {
		case "admit":
			state, got, alone = admit(policy, state, step)
			pods[step.UID] = step.Pod
		case "start":
			state = state.Started(pods[step.UID], step.Container)
		case "remove":
			state = state.Release(step.UID)
		default:
			return o, fmt.Errorf("%q is not one of admit, start and remove", step.Op)
		}
		got.After = amounts(state)
		want := step.memoryAnswer
		want.sort()
		got.sort()
		if o.diff = differ(fmt.Sprintf("steps[%d] %s %s", i, step.Op, step.UID), want, got); o.diff != "" {
			if alone {
				o.deviation, o.diff = groupServesAlone, ""
			}
			return o, nil
		}
	}
	return o, nil
}

func admit(policy topology.Policy, before numamemory.State, step *memoryStep) (numamemory.State, memoryAnswer, bool) {
	memory := &heardMemory{Admission: numamemory.Admission{State: before}}
	affinities, refusal := policy.Admit(step.Pod, recordedDevice{step}, memory)
	got := memoryAnswer{Hints: memory.heard}
	if refusal != nil {
		// A kubelet's message does not name the resource.
		got.Reason, got.Error = refusal.Reason, strings.TrimSuffix(refusal.Message, ": "+string(refusal.Resource))
		return before.Release(step.UID), got, memory.alone
	}
	got.Affinity, got.Blocks = map[string]hintRecord{}, map[string][]blockRecord{}
	for name, h := range affinities {
		got.Affinity[name] = hintRecord(h)
		for _, b := range memory.State.Container(step.UID, name) {
			got.Blocks[name] = append(got.Blocks[name], blockRecord{b.Nodes, b.Resource, b.Size})
		}
	}
	return memory.State, got, memory.alone
}

// byGroup adds up the amounts of nodes that allocate together: how a group's memory is spread over its nodes decides nothing, and a kubelet
// spreads it by the random order in which it visits containers.
func byGroup(nodes []nodeAmounts) []nodeAmounts {
	var all []nodeAmounts
	for _, n := range nodes {
		i := slices.IndexFunc(all, func(g nodeAmounts) bool { return g.Cells == n.Cells })
		if i < 0 {
			i = len(all)
			all = append(all, nodeAmounts{Assignments: n.Assignments, Cells: n.Cells, Memory: map[v1.ResourceName][3]uint64{}})
		}
		for name, a := range n.Memory {
			sum := all[i].Memory[name]
			all[i].Memory[name] = [3]uint64{sum[0] + a[0], sum[1] + a[1], sum[2] + a[2]}
		}
	}
	return all
}

func amounts(s numamemory.State) (all []nodeAmounts) {
	for _, n := range s.Nodes {
		one := nodeAmounts{Assignments: n.Blocks, Cells: n.Group, Memory: map[v1.ResourceName][3]uint64{}}
		for name, a := range n.Amounts {
			one.Memory[name] = [3]uint64{a.Allocatable, a.Allocatable - a.Free, a.Free}
		}
		all = append(all, one)
	}
	return all
}

// sort orders hints, and omits empty ones.
func (a *memoryAnswer) sort() {
	a.After = byGroup(a.After)
	for _, all := range a.Hints {
		for _, list := range all {
			slices.SortFunc(list, func(a, b hintRecord) int { return cmp.Compare(a.Nodes, b.Nodes) })
		}
	}
	if len(a.Affinity) == 0 {
		a.Affinity = nil
	}
	if len(a.Blocks) == 0 {
		a.Blocks = nil
	}
	if len(a.Hints) == 0 {
		a.Hints = nil
	}
}

// differ returns the difference between two values, with the path of each field.
func differ(path string, want, got any) string {
	return sideBySide(compareTrees(path, jsonTree(want), jsonTree(got)))
}
