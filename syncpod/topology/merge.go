package topology

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// A Choice is the result of [Policy.Merge].
type Choice struct {
	// Hint is the best affinity for all resources. No nodes mean any node.
	Hint Hint
	// Admitted reports whether the policy admits the pod.
	Admitted bool
	// Unaligned is the first resource, by provider and then by name, without which the choice would be preferred. It is empty if the
	// choice is preferred.
	Unaligned v1.ResourceName
}

// Merge returns the best affinity that the hints of all providers allow. It is preferred if each resource has a preferred hint for the
// same nodes. Otherwise it is a set that each resource has a hint for, if only among the hint's nodes.
func (p Policy) Merge(providers ...Hints) Choice {
	if p.none() {
		return Choice{Admitted: true}
	}
	lists := p.lists(providers)
	aligned, unaligned := p.preferred(lists)
	c := Choice{Hint: Hint{Nodes: p.machine.Nodes}, Unaligned: unaligned}
	if unaligned == "" {
		c.Hint = Hint{Nodes: p.best(aligned, 0), Preferred: true}
	} else if common := p.common(lists); len(common) > 0 {
		c.Hint.Nodes = p.best(common, widest(lists))
	}
	if p.config.Policy == PolicySingleNUMANode && c.Hint.Nodes == p.machine.Nodes {
		c.Hint.Nodes = 0
	}
	c.Admitted = c.Hint.Preferred || p.config.Policy == PolicyBestEffort
	return c
}

// A list has the hints for one resource.
type list struct {
	resource v1.ResourceName
	hints    []Hint
}

// lists returns the hints for each resource. If no nodes can provide the resource, any node does, but is not preferred. The policy
// single-numa-node ignores all hints but preferred ones for one node.
func (p Policy) lists(providers []Hints) []list {
	var all []list
	for _, hints := range providers {
		for _, name := range slices.Sorted(maps.Keys(hints)) {
			l := list{name, hints[name]}
			if len(l.hints) == 0 {
				l.hints = []Hint{{}}
			}
			if p.config.Policy == PolicySingleNUMANode {
				l.hints = slices.DeleteFunc(slices.Clone(l.hints), func(h Hint) bool { return !h.Preferred || h.Nodes.Count() > 1 })
			}
			all = append(all, l)
		}
	}
	return all
}

// preferred returns the sets that all resources prefer, or the first resource that prefers none of the sets before it.
// A preferred hint without nodes accepts each set.
func (p Policy) preferred(lists []list) (sets []Mask, unaligned v1.ResourceName) {
	sets = []Mask{0} // any
	for _, l := range lists {
		var both []Mask
		for _, h := range l.hints {
			for _, s := range sets {
				m := s | h.Nodes
				if h.Preferred && (s == 0 || h.Nodes == 0 || s == h.Nodes) && !slices.Contains(both, m) {
					both = append(both, m)
				}
			}
		}
		if sets = both; len(sets) == 0 {
			return nil, l.resource
		}
	}
	var last v1.ResourceName
	if len(lists) > 0 {
		last = lists[len(lists)-1].resource
	}
	sets = slices.DeleteFunc(p.onMachine(sets), func(m Mask) bool { return m == 0 })
	if len(sets) == 0 {
		return nil, last
	}
	return sets, ""
}

// onMachine returns the sets without nodes that the machine lacks; any node becomes all nodes.
func (p Policy) onMachine(sets []Mask) []Mask {
	for i, m := range sets {
		if m == 0 {
			m = p.machine.Nodes
		}
		sets[i] = m & p.machine.Nodes
	}
	return sets
}

// dense is the number of bits up to which a table serves as a set of masks.
const dense = 16

// common returns the sets that remain if one hint for each resource is chosen, and only their common nodes count.
func (p Policy) common(lists []list) []Mask {
	sets := []Mask{p.machine.Nodes}
	for _, l := range lists {
		seen := newMasks(p.machine.Nodes)
		var next []Mask
		for _, h := range l.hints {
			nodes := h.Nodes
			if nodes == 0 {
				nodes = p.machine.Nodes
			}
			for _, s := range sets {
				if m := s & nodes; m != 0 && seen.add(m) {
					next = append(next, m)
				}
			}
		}
		sets = next
	}
	return sets
}

// masks is a set of masks.
type masks struct {
	table []bool
	rest  map[Mask]bool
}

// newMasks returns an empty set for subsets of m.
func newMasks(m Mask) masks {
	if m < 1<<dense {
		return masks{table: make([]bool, m+1)}
	}
	return masks{rest: map[Mask]bool{}}
}

// add reports whether m was not in the set yet.
func (s masks) add(m Mask) bool {
	if s.table == nil {
		seen := s.rest[m]
		s.rest[m] = true
		return !seen
	}
	seen := s.table[m]
	s.table[m] = true
	return !seen
}

// widest returns how many nodes a container needs at least: the most of the narrowest hints for each resource.
func widest(lists []list) int {
	most := 0
	for _, l := range lists {
		least := MaxNodes + 1
		for _, h := range l.hints {
			if h.Nodes != 0 {
				least = min(least, h.Nodes.Count())
			}
		}
		if least <= MaxNodes {
			most = max(most, least)
		}
	}
	return most
}

// best returns the best of some sets, which are not empty. Sets with as many nodes as needed are better than narrower ones, and these better
// than wider ones.
func (p Policy) best(sets []Mask, needed int) Mask {
	best := sets[0]
	for _, m := range sets[1:] {
		if p.better(m, best, needed) {
			best = m
		}
	}
	return best
}

func (p Policy) better(a, b Mask, needed int) bool {
	na, nb := a.Count(), b.Count()
	switch {
	case na == nb, na > needed && nb > needed:
		return p.closer(a, b)
	case na > needed || nb > needed:
		return nb > needed
	}
	return na > nb
}

// closer reports whether a has fewer nodes, or as many that are closer to each other, if the policy has the option, or else lower ones.
func (p Policy) closer(a, b Mask) bool {
	if p.config.PreferClosest && a.Count() == b.Count() {
		if da, db := p.distance(a), p.distance(b); da != db {
			return da < db
		}
	}
	return a.NarrowerThan(b)
}

// distance sums up the distances between all nodes in a set, also from a node to itself.
func (p Policy) distance(m Mask) (sum uint64) {
	for a := range m.Nodes() {
		for b := range m.Nodes() {
			sum += p.machine.Distances[a][b]
		}
	}
	return sum
}
