package main

import (
	"fmt"
	"math/rand/v2"
	"slices"

	cadvisor "github.com/google/cadvisor/info/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// A hint is a topology hint as recorded: no nodes means that the hint has no affinity.
type hint struct {
	Nodes     uint64 `json:"nodes,omitempty"`
	Preferred bool   `json:"preferred,omitempty"`
}

// A machine has NUMA nodes with the distances between them.
type machine struct {
	Nodes     []int            `json:"nodes"`
	Distances map[int][]uint64 `json:"distances,omitempty"`
}

type topologyRecord struct {
	Machine machine             `json:"machine"`
	Policy  string              `json:"policy"`
	Closest bool                `json:"closest,omitempty"`
	Hints   []map[string][]hint `json:"hints"`
	// Want has all answers in several attempts: the kubelet visits maps in random order.
	Want []topologyWant `json:"want"`
}

type topologyWant struct {
	Hint  hint `json:"hint"`
	Admit bool `json:"admit"`
}

const attempts = 12

func randomMachine(r *rand.Rand) machine {
	m := machine{Distances: map[int][]uint64{}}
	id := 0
	for range 1 + r.IntN(8) {
		if oneIn(r, 12) {
			id++
		}
		m.Nodes = append(m.Nodes, id)
		id++
	}
	between := map[[2]int]uint64{}
	for _, a := range m.Nodes {
		for _, b := range m.Nodes {
			d, ok := between[[2]int{b, a}]
			if !ok {
				d = pick[uint64](r, 11, 12, 20, 21, 31)
			}
			if a == b {
				d = 10
			}
			between[[2]int{a, b}] = d
		}
	}
	for _, a := range m.Nodes {
		for b := range m.Nodes[len(m.Nodes)-1] + 1 {
			m.Distances[a] = append(m.Distances[a], between[[2]int{a, b}])
		}
	}
	return m
}

func (m machine) cadvisor() (all []cadvisor.Node) {
	for _, n := range m.Nodes {
		all = append(all, cadvisor.Node{Id: n, Distances: m.Distances[n]})
	}
	return all
}

func randomMask(r *rand.Rand, m machine) (mask uint64) {
	few := oneIn(r, 2)
	for mask == 0 {
		for _, n := range m.Nodes {
			if oneIn(r, 2) && (!few || oneIn(r, 3)) {
				mask |= 1 << n
			}
		}
	}
	return mask
}

// randomHints returns hints as managers make them in half of the cases: the narrowest masks are preferred.
func randomHints(r *rand.Rand, m machine) []hint {
	if oneIn(r, 25) {
		return []hint{}
	}
	var all []hint
	for range 1 + r.IntN(6) {
		h := hint{Nodes: randomMask(r, m), Preferred: oneIn(r, 2)}
		if oneIn(r, 20) {
			h.Nodes = 0
		}
		all = append(all, h)
	}
	if oneIn(r, 2) {
		least := 64
		for _, h := range all {
			least = min(least, count(h.Nodes))
		}
		for i := range all {
			all[i].Preferred = count(all[i].Nodes) == least
		}
	}
	return all
}

func count(mask uint64) int { return toMask(mask).Count() }

func toMask(mask uint64) bitmask.BitMask {
	all := bitmask.NewEmptyBitMask()
	for n := range 64 {
		if mask>>n&1 == 1 {
			all.Add(n)
		}
	}
	return all
}

func fromMask(mask bitmask.BitMask) (all uint64) {
	if mask == nil {
		return 0
	}
	for _, n := range mask.GetBits() {
		all |= 1 << n
	}
	return all
}

func toHints(hints []hint) []topologymanager.TopologyHint {
	if hints == nil {
		return nil
	}
	all := []topologymanager.TopologyHint{}
	for _, h := range hints {
		one := topologymanager.TopologyHint{Preferred: h.Preferred}
		if h.Nodes != 0 {
			one.NUMANodeAffinity = toMask(h.Nodes)
		}
		all = append(all, one)
	}
	return all
}

func fromHints(hints []topologymanager.TopologyHint) []hint {
	if hints == nil {
		return nil
	}
	all := []hint{}
	for _, h := range hints {
		all = append(all, fromHint(h))
	}
	return all
}

func fromHint(h topologymanager.TopologyHint) hint {
	return hint{Nodes: fromMask(h.NUMANodeAffinity), Preferred: h.Preferred}
}

func topologyCase(r *rand.Rand) (any, error) {
	c := topologyRecord{Machine: randomMachine(r), Policy: pick(r, "none", "best-effort", "best-effort", "restricted", "restricted", "single-numa-node"), Closest: oneIn(r, 3)}
	providers := make([]map[string][]topologymanager.TopologyHint, r.IntN(4))
	name := 'a'
	for i := range providers {
		recorded := map[string][]hint{}
		providers[i] = map[string][]topologymanager.TopologyHint{}
		for range r.IntN(3) {
			resource := "example.com/" + string(name)
			name++
			if oneIn(r, 15) {
				providers[i][resource] = nil // it has no preference; the record omits it
				continue
			}
			recorded[resource] = randomHints(r, c.Machine)
			providers[i][resource] = toHints(recorded[resource])
		}
		c.Hints = append(c.Hints, recorded)
	}
	options := map[string]string{}
	if c.Closest {
		options["prefer-closest-numa-nodes"] = "true"
	}
	logger := klog.Background()
	opts, err := topologymanager.NewPolicyOptions(logger, options)
	if err != nil {
		return nil, err
	}
	info, err := topologymanager.NewNUMAInfo(c.Machine.cadvisor(), opts)
	if err != nil {
		return nil, err
	}
	var policy topologymanager.Policy
	switch c.Policy {
	case "none":
		policy = topologymanager.NewNonePolicy()
	case "best-effort":
		policy = topologymanager.NewBestEffortPolicy(info, opts)
	case "restricted":
		policy = topologymanager.NewRestrictedPolicy(info, opts)
	default:
		policy = topologymanager.NewSingleNumaNodePolicy(info, opts)
	}
	if policy.Name() != c.Policy {
		return nil, fmt.Errorf("policy %q has the name %q", c.Policy, policy.Name())
	}
	for range attempts {
		best, admit := policy.Merge(logger, providers)
		want := topologyWant{fromHint(best), admit}
		if !slices.Contains(c.Want, want) {
			c.Want = append(c.Want, want)
		}
	}
	if !c.Closest {
		c.Machine.Distances = nil
	}
	return c, nil
}
