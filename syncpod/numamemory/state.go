package numamemory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/topology"
)

// The policies in a kubelet's field memoryManagerPolicy.
const (
	PolicyNone   = "None"
	PolicyStatic = "Static"
)

// A Config is a policy in a kubelet configuration's terms. The zero Config is the policy None.
type Config struct {
	// Policy is one of the policies; empty means None.
	Policy string
	// Nodes are the machine's NUMA nodes.
	Nodes []Node
	// Reserved are the memory and the huge pages that the node keeps from pods: kubeReserved, systemReserved and the hard eviction
	// threshold together. The reservations on Nodes must add up to it. Nil checks nothing.
	Reserved v1.ResourceList
}

// MaxNodes limits the NUMA nodes, because a decision tries each set.
const MaxNodes = 16

// A Node is a NUMA node. Amounts are in bytes.
type Node struct {
	ID int
	// Memory is the memory's size, with the huge pages in it.
	Memory uint64
	// HugePages are how much memory huge pages take, by resource name, such as hugepages-2Mi.
	HugePages map[v1.ResourceName]uint64
	// Reserved is the node's part of a kubelet's reservedMemory.
	Reserved map[v1.ResourceName]uint64
}

// A State is a machine's memory, and which container has which part. It is a value: methods return a new State, and share
// with it what has not changed. The zero State is the policy None, which allocates nothing. Its JSON is stored in files.
type State struct {
	// Nodes are the NUMA nodes, sorted by ID.
	Nodes []NodeState `json:"nodes,omitempty"`
	// Pods are the allocated blocks, by pod and container.
	Pods map[types.UID]map[string][]Block `json:"pods,omitempty"`
}

// A NodeState is a NUMA node, and how much is allocated.
type NodeState struct {
	ID int `json:"id"`
	// Group are the NUMA nodes that allocate together with this one, and the node itself. A node in a group provides no memory to
	// containers in other groups, nor to containers with memory from this node alone.
	Group topology.Mask `json:"group"`
	// Blocks counts the blocks from this node.
	Blocks int `json:"blocks,omitempty"`
	// Amounts are the memory and the huge pages.
	Amounts map[v1.ResourceName]Amount `json:"amounts"`
}

// An Amount is in bytes.
type Amount struct {
	Allocatable uint64 `json:"allocatable"`
	Free        uint64 `json:"free"`
}

// A Block is a container's memory, or its huge pages in one size.
type Block struct {
	// Nodes are the NUMA nodes that the container may use for it.
	Nodes    topology.Mask   `json:"nodes"`
	Resource v1.ResourceName `json:"resource"`
	// Size is in bytes. Of an init container's block it lacks what later containers reuse.
	Size uint64 `json:"size"`
}

// New returns the State for a machine without pods.
func New(c Config) (State, error) {
	switch c.Policy {
	case "", PolicyNone:
		return State{}, nil
	case PolicyStatic:
	default:
		return State{}, fmt.Errorf("memoryManagerPolicy %q is neither None nor Static", c.Policy)
	}
	if len(c.Nodes) > MaxNodes {
		return State{}, fmt.Errorf("memory manager: the machine has %d NUMA nodes, more than %d", len(c.Nodes), MaxNodes)
	}
	var s State
	var all topology.Mask
	reserved := map[v1.ResourceName]uint64{}
	for _, n := range c.Nodes {
		m, err := topology.MaskOf(n.ID)
		if err == nil && all&m != 0 {
			err = fmt.Errorf("NUMA node %d is listed twice", n.ID)
		}
		if err != nil {
			return State{}, fmt.Errorf("memory manager: %w", err)
		}
		all |= m
		amounts, err := n.amounts()
		if err != nil {
			return State{}, fmt.Errorf("reservedMemory: NUMA node %d: %w", n.ID, err)
		}
		s.Nodes = append(s.Nodes, NodeState{ID: n.ID, Group: m, Amounts: amounts})
		for name, size := range n.Reserved {
			reserved[name] += size
		}
	}
	if err := c.checkReserved(reserved); err != nil {
		return State{}, err
	}
	slices.SortFunc(s.Nodes, func(a, b NodeState) int { return cmp.Compare(a.ID, b.ID) })
	return s, nil
}

// checkReserved returns an error unless memory is reserved, because a node without could give pods all its memory.
func (c Config) checkReserved(reserved map[v1.ResourceName]uint64) error {
	if reserved[v1.ResourceMemory] == 0 {
		return fmt.Errorf("reservedMemory: memoryManagerPolicy Static needs reserved memory on a NUMA node")
	}
	if c.Reserved == nil {
		return nil
	}
	names := slices.Collect(maps.Keys(reserved))
	for name := range c.Reserved {
		if reserved[name] == 0 && isMemory(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if node := c.Reserved[name]; node.Value() < 0 || reserved[name] != uint64(node.Value()) {
			return fmt.Errorf("reservedMemory: the NUMA nodes reserve %d of %s, and the node %d", reserved[name], name, node.Value())
		}
	}
	return nil
}

// amounts returns what pods can get.
func (n Node) amounts() (map[v1.ResourceName]Amount, error) {
	sizes := map[v1.ResourceName]uint64{v1.ResourceMemory: n.Memory}
	for name, size := range n.HugePages {
		if !isMemory(name) || name == v1.ResourceMemory {
			return nil, fmt.Errorf("%s is no resource of huge pages", name)
		}
		if size > sizes[v1.ResourceMemory] {
			return nil, fmt.Errorf("%s and other huge pages exceed the memory of %d bytes", name, n.Memory)
		}
		sizes[name] = size
		sizes[v1.ResourceMemory] -= size
	}
	for name, size := range n.Reserved {
		if size > sizes[name] {
			return nil, fmt.Errorf("%d of %s are reserved, and %d present", size, name, sizes[name])
		}
		sizes[name] -= size
	}
	amounts := map[v1.ResourceName]Amount{}
	for name, size := range sizes {
		amounts[name] = Amount{size, size}
	}
	return amounts, nil
}

func isMemory(name v1.ResourceName) bool {
	return name == v1.ResourceMemory || strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// Restore returns a State that an earlier agent has stored, on the machine of s, which no pod uses yet. If containers have memory of a
// machine that differs, it returns an error that names the difference.
func (s State) Restore(stored State) (State, error) {
	if len(stored.Pods) == 0 {
		return s, nil
	}
	if len(s.Nodes) != len(stored.Nodes) {
		return State{}, fmt.Errorf("memory manager: the machine has %d NUMA nodes with memory for pods, and %d when memory was allocated to %d pods", len(s.Nodes), len(stored.Nodes), len(stored.Pods))
	}
	for i, now := range s.Nodes {
		then := stored.Nodes[i]
		if then.ID != now.ID {
			return State{}, fmt.Errorf("memory manager: the machine has NUMA node %d in place of %d", now.ID, then.ID)
		}
		for _, name := range slices.Sorted(maps.Keys(union(now.Amounts, then.Amounts))) {
			if now.Amounts[name].Allocatable != then.Amounts[name].Allocatable {
				return State{}, fmt.Errorf("memory manager: NUMA node %d has %d of %s for pods, and had %d when memory was allocated to %d pods", now.ID, now.Amounts[name].Allocatable, name, then.Amounts[name].Allocatable, len(stored.Pods))
			}
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(stored.Pods)) {
		for name, blocks := range stored.Pods[uid] {
			for _, b := range blocks {
				if b.Nodes == 0 || b.Nodes&^s.machine() != 0 {
					return State{}, fmt.Errorf("memory manager: pod %s, container %s: the machine does not have the NUMA nodes %s", uid, name, b.Nodes)
				}
			}
		}
	}
	return stored, nil
}

func union(a, b map[v1.ResourceName]Amount) map[v1.ResourceName]Amount {
	all := map[v1.ResourceName]Amount{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// Container returns a container's blocks, sorted by resource. The caller must not modify them.
func (s State) Container(uid types.UID, name string) []Block { return s.Pods[uid][name] }

// Allocatable returns what pods can get from all NUMA nodes, allocated or not: a block for each node and resource.
func (s State) Allocatable() []Block {
	var all []Block
	for _, n := range s.Nodes {
		for _, name := range slices.Sorted(maps.Keys(n.Amounts)) {
			all = append(all, Block{Nodes: n.mask(), Resource: name, Size: n.Amounts[name].Allocatable})
		}
	}
	return all
}

// mask returns the set with this node only.
func (n NodeState) mask() topology.Mask {
	m, _ := topology.MaskOf(n.ID) // New has checked the ID; another State has no such node
	return m
}

// machine returns all NUMA nodes.
func (s State) machine() (m topology.Mask) {
	for _, n := range s.Nodes {
		m |= n.mask()
	}
	return m
}

// clone returns a copy whose nodes, and whose map for one pod, may be modified.
func (s State) clone(uid types.UID) State {
	s.Nodes = slices.Clone(s.Nodes)
	for i := range s.Nodes {
		amounts := map[v1.ResourceName]Amount{}
		maps.Copy(amounts, s.Nodes[i].Amounts)
		s.Nodes[i].Amounts = amounts
	}
	pods := maps.Clone(s.Pods)
	if pods == nil {
		pods = map[types.UID]map[string][]Block{}
	}
	pods[uid] = maps.Clone(pods[uid])
	if pods[uid] == nil {
		pods[uid] = map[string][]Block{}
	}
	s.Pods = pods
	return s
}

// take takes a block from its nodes, of which the last ones may give none: size bytes are new, the rest is reused. The State must be a clone.
func (s State) take(b Block, size uint64) {
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !b.Nodes.Has(n.ID) {
			continue
		}
		n.Blocks++
		n.Group = b.Nodes
		a := n.Amounts[b.Resource]
		part := min(size, a.Free)
		a.Free -= part
		size -= part
		n.Amounts[b.Resource] = a
	}
}

// give returns a block to its nodes: the first ones get all that is allocated from them. The State must be a clone.
func (s State) give(b Block) {
	size := b.Size
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if !b.Nodes.Has(n.ID) {
			continue
		}
		if n.Blocks--; n.Blocks <= 0 {
			n.Blocks, n.Group = 0, n.mask()
		}
		a := n.Amounts[b.Resource]
		part := min(size, a.Allocatable-a.Free)
		a.Free += part
		size -= part
		n.Amounts[b.Resource] = a
	}
}

// Release returns the State without a pod.
func (s State) Release(uid types.UID) State {
	if s.Pods[uid] == nil {
		return s
	}
	next := s.clone(uid)
	for _, name := range slices.Sorted(maps.Keys(s.Pods[uid])) {
		next.drop(uid, name)
	}
	delete(next.Pods, uid)
	return next
}

// drop releases a container. The State must be a clone.
func (s State) drop(uid types.UID, name string) {
	for _, b := range s.Pods[uid][name] {
		s.give(b)
	}
	delete(s.Pods[uid], name)
}
