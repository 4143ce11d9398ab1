package cpu

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/podsync/podsync/syncpod/topology"
)

// A CPU is an online logical CPU and its place in the machine.
type CPU struct {
	// ID is the number of the logical CPU in Linux.
	ID int `json:"id"`
	// Core is shared by the threads of one physical core, and by no other CPU of the machine.
	Core int `json:"core"`
	// Cache is shared by the CPUs of one uncore cache (L3), and by no other CPU of the machine. On a machine without one, it is the socket.
	Cache int `json:"cache"`
	// Node is the NUMA node.
	Node int `json:"node"`
	// Socket is the physical package.
	Socket int `json:"socket"`
}

// A Topology is the machine: its online CPUs, in any order. Read reads it from sysfs.
type Topology struct {
	CPUs []CPU `json:"cpus"`
}

// A group is a set of CPUs that share something: a core, a cache, a NUMA node or a socket.
type group struct {
	id   int
	cpus Set
	// in are the groups of the next higher level that share CPUs with this group.
	in []int
}

// A level has all groups of one kind, ordered by id.
type level []group

// A layout is a Topology, arranged for decisions.
type layout struct {
	all                           Set
	sockets, nodes, caches, cores level
	// upper and lower are the sockets and the NUMA nodes. The upper ones contain the lower ones.
	upper, lower level
	nodeOf       map[int]int // the index of each NUMA node in nodes
}

func newLayout(t Topology) (*layout, error) {
	if len(t.CPUs) == 0 {
		return nil, fmt.Errorf("topology: no CPU")
	}
	l := &layout{}
	seen := map[int]CPU{}
	cores := map[int]CPU{}
	for _, c := range t.CPUs {
		if c.ID < 0 || c.ID >= MaxCPUs {
			return nil, fmt.Errorf("topology: CPU %d is not from 0 to %d", c.ID, MaxCPUs-1)
		}
		if _, twice := seen[c.ID]; twice {
			return nil, fmt.Errorf("topology: CPU %d is there twice", c.ID)
		}
		if c.Node < 0 || c.Node >= topology.MaxNodes {
			return nil, fmt.Errorf("topology: NUMA node %d of CPU %d is not from 0 to %d", c.Node, c.ID, topology.MaxNodes-1)
		}
		if other, ok := cores[c.Core]; ok && (other.Node != c.Node || other.Socket != c.Socket || other.Cache != c.Cache) {
			return nil, fmt.Errorf("topology: the CPUs %d and %d of core %d are in two places", other.ID, c.ID, c.Core)
		}
		seen[c.ID], cores[c.Core] = c, c
		l.all.add(c.ID)
	}
	l.sockets = levelOf(t.CPUs, func(c CPU) int { return c.Socket })
	l.nodes = levelOf(t.CPUs, func(c CPU) int { return c.Node })
	l.caches = levelOf(t.CPUs, func(c CPU) int { return c.Cache })
	l.cores = levelOf(t.CPUs, func(c CPU) int { return c.Core })
	l.upper, l.lower = l.sockets, l.nodes
	if l.nodesAbove() {
		l.upper, l.lower = l.nodes, l.sockets
	}
	l.lower.within(l.upper)
	l.caches.within(l.nodes)
	l.cores.within(l.lower)
	l.nodeOf = map[int]int{}
	for i, n := range l.nodes {
		l.nodeOf[n.id] = i
	}
	return l, nil
}

func levelOf(cpus []CPU, id func(CPU) int) level {
	at := map[int]int{}
	var groups level
	for _, c := range cpus {
		i, ok := at[id(c)]
		if !ok {
			i = len(groups)
			at[id(c)] = i
			groups = append(groups, group{id: id(c)})
		}
		groups[i].cpus.add(c.ID)
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Compare(a.id, b.id) })
	return groups
}

// within sets in of each group.
func (l level) within(above level) {
	for i := range l {
		for j, parent := range above {
			if l[i].cpus.common(parent.cpus) > 0 {
				l[i].in = append(l[i].in, j)
			}
		}
	}
}

// nodesAbove reports whether NUMA nodes contain sockets, and not sockets NUMA nodes.
func (l *layout) nodesAbove() bool { return len(l.sockets) >= len(l.nodes) }

// average returns how many CPUs a group of a level has on average, rounded down. The decisions use it where groups should have one size.
func (l *layout) average(groups level) int { return l.all.Len() / len(groups) }

// cpusOf returns the CPUs of NUMA nodes.
func (l *layout) cpusOf(nodes topology.Mask) Set {
	var s Set
	for n := range nodes.Nodes() {
		if i, ok := l.nodeOf[n]; ok {
			s = s.Union(l.nodes[i].cpus)
		}
	}
	return s
}
