package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	cadvisor "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

// A memoryRecord is a machine, and what the kubelet decided about pods on it, one after another.
type memoryRecord struct {
	Machine  machine `json:"machine"`
	Nodes    []node  `json:"nodes"`
	Topology string  `json:"topology"`
	Scope    string  `json:"scope"`
	Closest  bool    `json:"closest,omitempty"`
	// Initial is the state before the first step.
	Initial []nodeState `json:"initial"`
	Steps   []*step     `json:"steps"`
}

// A node has memory and huge pages, and reservations of each resource.
type node struct {
	ID        int                        `json:"id"`
	Memory    uint64                     `json:"memory"`
	HugePages map[uint64]uint64          `json:"hugePages,omitempty"` // number of pages by size in KiB
	Reserved  map[v1.ResourceName]uint64 `json:"reserved,omitempty"`
}

type step struct {
	// Op is admit, start or remove. A pod that is admitted again was admitted before a restart.
	Op        string  `json:"op"`
	UID       string  `json:"uid"`
	Pod       *v1.Pod `json:"pod,omitempty"`
	Container string  `json:"container,omitempty"`
	// Device has another provider's hints by container, with the hints for the whole pod below the empty name.
	Device map[string]map[string][]hint `json:"device,omitempty"`
	// Fails is the container for which the other provider's Allocate fails.
	Fails string `json:"fails,omitempty"`

	// Hints are the memory manager's hints in the order of the topology manager's questions.
	Hints  []map[string][]hint `json:"hints,omitempty"`
	Reason string              `json:"reason,omitempty"`
	Error  string              `json:"error,omitempty"`
	// Affinity and Blocks are by container, after an admission.
	Affinity map[string]hint    `json:"affinity,omitempty"`
	Blocks   map[string][]block `json:"blocks,omitempty"`
	After    []nodeState        `json:"after,omitempty"`
}

type block struct {
	Nodes uint64          `json:"nodes"`
	Type  v1.ResourceName `json:"type"`
	Size  uint64          `json:"size"`
}

// A nodeState has the amounts allocatable, reserved and free by resource.
type nodeState struct {
	Assignments int                           `json:"n,omitempty"`
	Cells       uint64                        `json:"cells"`
	Memory      map[v1.ResourceName][3]uint64 `json:"memory"`
}

const (
	mi = 1 << 20
	gi = 1 << 30
)

func randomNode(r *rand.Rand, id int, sizes []uint64) node {
	n := node{ID: id, HugePages: map[uint64]uint64{}, Reserved: map[v1.ResourceName]uint64{}}
	for _, kib := range sizes {
		// Each node has an entry for each size, as in sysfs: a kubelet panics without.
		n.HugePages[kib] = pick(r, uint64(0), 1, 2, 2, 4)
		if kib == 2048 {
			n.HugePages[kib] *= 256
		}
		n.Memory += kib * 1024 * n.HugePages[kib]
	}
	n.Memory += gi * uint64(pick(r, 0, 1, 2, 4, 4, 4, 8))
	if !oneIn(r, 3) {
		free := n.Memory
		for kib, pages := range n.HugePages {
			free -= kib * 1024 * pages
		}
		if free > 0 {
			n.Reserved[v1.ResourceMemory] = min(free, uint64(pick(r, 256, 512, 1024))*mi)
		}
	}
	if n.HugePages[2048] > 0 && oneIn(r, 4) {
		n.Reserved["hugepages-2Mi"] = 128 * 2 * mi
	}
	return n
}

func (c *memoryRecord) random(r *rand.Rand) {
	c.Machine = randomMachine(r)
	var sizes []uint64
	for _, kib := range []uint64{2048, 1048576} {
		if oneIn(r, 2) {
			sizes = append(sizes, kib)
		}
	}
	reserved := false
	for !reserved { // the policy Static requires reserved memory
		c.Nodes = nil
		for _, id := range c.Machine.Nodes {
			c.Nodes = append(c.Nodes, randomNode(r, id, sizes))
			reserved = reserved || c.Nodes[len(c.Nodes)-1].Reserved[v1.ResourceMemory] > 0
		}
	}
	c.Topology = pick(r, "none", "best-effort", "restricted", "single-numa-node")
	c.Scope = pick(r, "container", "pod")
	c.Closest = oneIn(r, 4)
}

func quantity(n uint64) resource.Quantity { return *resource.NewQuantity(int64(n), resource.BinarySI) }

func randomContainer(r *rand.Rand, name string, unit uint64, sizes []uint64) v1.Container {
	list := v1.ResourceList{v1.ResourceCPU: quantity(1), v1.ResourceMemory: quantity(unit * uint64(1+r.IntN(6)))}
	for _, kib := range sizes {
		if oneIn(r, 3) {
			list[v1.ResourceName("hugepages-"+map[uint64]string{2048: "2Mi", 1048576: "1Gi"}[kib])] = quantity(max(kib*1024, gi/2) * uint64(1+r.IntN(3)))
		}
	}
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}}
}

func (c *memoryRecord) randomPod(r *rand.Rand, i int) *v1.Pod {
	var sizes []uint64
	for _, n := range c.Nodes {
		for kib := range n.HugePages {
			if !slices.Contains(sizes, kib) {
				sizes = append(sizes, kib)
			}
		}
	}
	slices.Sort(sizes)
	uid := fmt.Sprintf("p%d", i)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid)}}
	if oneIn(r, 40) {
		pod.Spec.Resources = &v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceCPU: quantity(4), v1.ResourceMemory: quantity(4 * gi)}}
		pod.Spec.Resources.Requests = pod.Spec.Resources.Limits
	}
	unit := pick[uint64](r, gi/4, gi/2, gi/2, gi)
	always := v1.ContainerRestartPolicyAlways
	for j := range r.IntN(3) * r.IntN(2) {
		k := randomContainer(r, fmt.Sprintf("i%d", j), unit, sizes)
		if oneIn(r, 3) {
			k.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, k)
	}
	for j := range 1 + r.IntN(2) {
		pod.Spec.Containers = append(pod.Spec.Containers, randomContainer(r, fmt.Sprintf("c%d", j), unit, sizes))
	}
	if oneIn(r, 12) { // Burstable
		delete(pod.Spec.Containers[0].Resources.Limits, v1.ResourceCPU)
	}
	return pod
}

// A device is another provider of hints.
type device struct{ step *step }

func (d *device) hints(container string) map[string][]topologymanager.TopologyHint {
	all := map[string][]topologymanager.TopologyHint{}
	for name, hints := range d.step.Device[container] {
		all[name] = toHints(hints)
	}
	return all
}

func (d *device) GetTopologyHints(_ *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return d.hints(c.Name)
}
func (d *device) GetPodTopologyHints(*v1.Pod) map[string][]topologymanager.TopologyHint {
	return d.hints("")
}
func (d *device) AllocatePod(*v1.Pod) error { return nil }
func (d *device) Allocate(_ *v1.Pod, c *v1.Container) error {
	if c.Name == d.step.Fails {
		return errors.New("no device")
	}
	return nil
}

// A listener records the memory manager's hints.
type listener struct {
	memorymanager.Manager
	step *step
}

func (l *listener) heard(hints map[string][]topologymanager.TopologyHint) map[string][]topologymanager.TopologyHint {
	all := map[string][]hint{}
	for name, h := range hints {
		if h != nil {
			all[name] = fromHints(h)
		}
	}
	l.step.Hints = append(l.step.Hints, all)
	return hints
}

func (l *listener) GetTopologyHints(p *v1.Pod, c *v1.Container) map[string][]topologymanager.TopologyHint {
	return l.heard(l.Manager.GetTopologyHints(p, c))
}

func (l *listener) GetPodTopologyHints(p *v1.Pod) map[string][]topologymanager.TopologyHint {
	return l.heard(l.Manager.GetPodTopologyHints(p))
}

type runtimeStub struct{}

func (runtimeStub) UpdateContainerResources(context.Context, string, *runtimeapi.ContainerResources) error {
	return nil
}

type statusStub struct{}

func (statusStub) GetPodStatus(types.UID) (v1.PodStatus, bool) { return v1.PodStatus{}, false }

// managers are the two managers, another provider of hints, and the active pods of the node.
type managers struct {
	topology topologymanager.Manager
	memory   memorymanager.Manager
	device   *device
	listener *listener
	active   []*v1.Pod
}

func (c *memoryRecord) managers(dir string) (*managers, error) {
	logger := klog.Background()
	options := map[string]string{}
	if c.Closest {
		options["prefer-closest-numa-nodes"] = "true"
	}
	info := &cadvisor.MachineInfo{Topology: c.Machine.cadvisor()}
	reserved := v1.ResourceList{}
	var reservations []kubeletconfig.MemoryReservation
	for i, n := range c.Nodes {
		info.Topology[i].Memory = n.Memory
		for _, kib := range []uint64{2048, 1048576} {
			if pages, ok := n.HugePages[kib]; ok {
				info.Topology[i].HugePages = append(info.Topology[i].HugePages, cadvisor.HugePagesInfo{PageSize: kib, NumPages: pages})
			}
		}
		if len(n.Reserved) == 0 {
			continue
		}
		limits := v1.ResourceList{}
		for name, amount := range n.Reserved {
			limits[name] = quantity(amount)
			sum := reserved[name]
			sum.Add(limits[name])
			reserved[name] = sum
		}
		reservations = append(reservations, kubeletconfig.MemoryReservation{NumaNode: int32(n.ID), Limits: limits})
	}
	m := &managers{device: &device{}}
	var err error
	if m.topology, err = topologymanager.NewManager(info.Topology, c.Topology, c.Scope, options); err != nil {
		return nil, err
	}
	if m.memory, err = memorymanager.NewManager(logger, "Static", info, reserved, reservations, dir, m.topology); err != nil {
		return nil, err
	}
	m.listener = &listener{Manager: m.memory}
	m.topology.AddHintProvider(logger, m.device)
	m.topology.AddHintProvider(logger, m.listener)
	active := func() []*v1.Pod { return m.active }
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	return m, m.memory.Start(context.Background(), active, ready, statusStub{}, runtimeStub{}, containermap.NewContainerMap())
}

func (m *managers) state(c *memoryRecord) (all []nodeState) {
	state := m.memory.State().GetMachineState()
	for _, n := range c.Machine.Nodes {
		one := nodeState{Assignments: state[n].NumberOfAssignments, Memory: map[v1.ResourceName][3]uint64{}}
		for _, cell := range state[n].Cells {
			one.Cells |= 1 << cell
		}
		for name, t := range state[n].MemoryMap {
			one.Memory[name] = [3]uint64{t.Allocatable, t.Reserved, t.Free}
		}
		all = append(all, one)
	}
	return all
}

// settle lets the memory manager free the memory of pods that are no longer active.
func (m *managers) settle() {
	m.memory.GetPodTopologyHints(&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "none"}})
}

func (m *managers) run(c *memoryRecord, s *step) {
	switch s.Op {
	case "admit":
		m.admit(s)
	case "start":
		for _, p := range m.active {
			if string(p.UID) == s.UID {
				m.memory.AddContainer(klog.Background(), p, containerOf(p, s.Container), "id-"+s.UID+"-"+s.Container)
			}
		}
	case "remove":
		m.active = slices.DeleteFunc(m.active, func(p *v1.Pod) bool { return string(p.UID) == s.UID })
	}
	m.settle()
	s.After = m.state(c)
}

func (m *managers) admit(s *step) {
	m.device.step, m.listener.step = s, s
	if !slices.ContainsFunc(m.active, func(p *v1.Pod) bool { return p.UID == s.Pod.UID }) {
		m.active = append(m.active, s.Pod) // as in a kubelet, which lists it before its admission
	}
	result := m.topology.Admit(&lifecycle.PodAdmitAttributes{Pod: s.Pod, OtherPods: m.active, Operation: lifecycle.AddOperation})
	s.Reason, s.Error = result.Reason, result.Message
	if !result.Admit {
		m.active = slices.DeleteFunc(m.active, func(p *v1.Pod) bool { return p.UID == s.Pod.UID })
		return
	}
	s.Affinity, s.Blocks = map[string]hint{}, map[string][]block{}
	for _, k := range slices.Concat(s.Pod.Spec.InitContainers, s.Pod.Spec.Containers) {
		s.Affinity[k.Name] = fromHint(m.topology.GetAffinity(s.UID, k.Name))
		for _, b := range m.memory.GetMemory(s.UID, k.Name) {
			one := block{Type: b.Type, Size: b.Size}
			for _, n := range b.NUMAAffinity {
				one.Nodes |= 1 << n
			}
			s.Blocks[k.Name] = append(s.Blocks[k.Name], one)
		}
		slices.SortFunc(s.Blocks[k.Name], func(a, b block) int { return strings.Compare(string(a.Type), string(b.Type)) })
	}
}

func containerOf(p *v1.Pod, name string) *v1.Container {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

func (c *memoryRecord) randomAdmission(r *rand.Rand, i int) *step {
	s := &step{Op: "admit", Pod: c.randomPod(r, i)}
	s.UID = string(s.Pod.UID)
	if oneIn(r, 3) {
		s.Device = map[string]map[string][]hint{}
		for _, name := range []string{"", "i0", "i1", "c0", "c1"} {
			if oneIn(r, 2) {
				s.Device[name] = map[string][]hint{"example.com/d": randomHints(r, c.Machine)}
			}
		}
	}
	if oneIn(r, 25) {
		s.Fails = pick(r, "c0", "c1", "i0")
	}
	return s
}

func memoryCase(r *rand.Rand) (any, error) {
	c := &memoryRecord{}
	c.random(r)
	dir, err := os.MkdirTemp("/dev/shm", "podsync-recorder-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m, err := c.managers(dir)
	if err != nil {
		return nil, err
	}
	c.Initial = m.state(c)
	for i := range 3 + r.IntN(10) {
		s := c.randomAdmission(r, i)
		if len(m.active) > 0 {
			p := m.active[r.IntN(len(m.active))]
			switch r.IntN(8) {
			case 0:
				s = &step{Op: "admit", UID: string(p.UID), Pod: p}
			case 1, 2:
				s = &step{Op: "remove", UID: string(p.UID)}
			case 3, 4:
				all := slices.Concat(p.Spec.InitContainers, p.Spec.Containers)
				s = &step{Op: "start", UID: string(p.UID), Container: all[r.IntN(len(all))].Name}
			}
		}
		if s.Op == "admit" && slices.Contains(m.active, s.Pod) { // after a restart
			next, err := c.managers(dir)
			if err != nil {
				break // a kubelet does not start if it cannot explain its checkpoint
			}
			m, next.active = next, m.active
		}
		m.run(c, s)
		c.Steps = append(c.Steps, s)
	}
	if !c.Closest {
		c.Machine.Distances = nil
	}
	return c, nil
}
