package topology_test

import (
	"slices"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/topology"
)

func TestMask(t *testing.T) {
	for _, c := range []struct {
		nodes []int
		text  string
	}{
		{nil, ""},
		{[]int{0}, "0"},
		{[]int{63, 0}, "0,63"},
		{[]int{1, 0}, "0-1"},
		{[]int{5, 0, 1, 2, 7, 8}, "0-2,5,7-8"},
		{[]int{62, 63}, "62-63"},
	} {
		m, err := topology.MaskOf(c.nodes...)
		slices.Sort(c.nodes)
		if err != nil || m.String() != c.text || m.Count() != len(c.nodes) || !slices.Equal(slices.Collect(m.Nodes()), c.nodes) {
			t.Errorf("%v: %q with %d nodes %v, error %v", c.nodes, m, m.Count(), slices.Collect(m.Nodes()), err)
		}
	}
	for _, n := range []int{-1, 64} {
		if m, err := topology.MaskOf(0, n); err == nil || m != 0 || m.Has(n) {
			t.Errorf("node %d: mask %v, error %v", n, m, err)
		}
	}
}

// The order of subsets is that in which a kubelet tries NUMA nodes: narrower sets first.
func TestSubsetsAreOrdered(t *testing.T) {
	m := must.Get(topology.MaskOf(0, 2, 3, 9))(t)
	all := slices.Collect(m.Subsets())
	if len(all) != 15 {
		t.Errorf("%d subsets, want 15: %v", len(all), all)
	}
	for i, s := range all {
		if s == 0 || s&^m != 0 || i > 0 && !all[i-1].NarrowerThan(s) {
			t.Errorf("subset %d is %v, after %v", i, s, all[max(i-1, 0)])
		}
	}
	for s := range m.Subsets() {
		if s.Count() == 2 {
			break // the rest is not computed
		}
	}
}
