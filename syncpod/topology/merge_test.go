package topology_test

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/topology"
)

func policy(t *testing.T, c topology.Config, nodes topology.Mask) topology.Policy {
	t.Helper()
	p := must.Get(topology.New(c, topology.Machine{Nodes: nodes}))(t)
	return p
}

// A refusal names the resource for which the others leave no nodes.
func TestMergeNamesTheResource(t *testing.T) {
	on := func(nodes topology.Mask, preferred bool) []topology.Hint {
		return []topology.Hint{{Nodes: nodes, Preferred: preferred}}
	}
	for _, c := range []struct {
		policy    string
		hints     []topology.Hints
		hint      string
		admitted  bool
		unaligned v1.ResourceName
	}{
		{"restricted", nil, "0-3 preferred", true, ""},
		{"single-numa-node", nil, "any preferred", true, ""},
		{"restricted", []topology.Hints{{"cpu": on(3, true)}, {"memory": on(3, true)}}, "0-1 preferred", true, ""},
		{"restricted", []topology.Hints{{"memory": on(1, true)}, {"gpu": on(2, true), "cpu": on(1, true)}}, "0-3", false, "gpu"},
		{"restricted", []topology.Hints{{"cpu": on(1, false)}, {"memory": on(2, true)}}, "0-3", false, "cpu"},
		{"single-numa-node", []topology.Hints{{"cpu": on(3, true)}}, "any", false, "cpu"},
		{"restricted", []topology.Hints{{"gpu": nil}}, "0-3", false, "gpu"},
		{"restricted", []topology.Hints{{"gpu": on(1<<40, true)}}, "0-3", false, "gpu"},
		{"best-effort", []topology.Hints{{"cpu": on(3, true)}, {"memory": on(6, true)}}, "1", true, "memory"},
	} {
		got := policy(t, topology.Config{Policy: c.policy}, 15).Merge(c.hints...)
		if got.Hint.String() != c.hint || got.Admitted != c.admitted || got.Unaligned != c.unaligned {
			t.Errorf("%s of %v: %+v, want %s, %v, %q", c.policy, c.hints, got, c.hint, c.admitted, c.unaligned)
		}
	}
}

// provider has hints for CPUs, and records what it allocates.
type provider struct {
	hints     topology.Hints
	fails     string
	allocated []string
	asked     int
}

func (p *provider) Hints(*v1.Pod, *v1.Container) topology.Hints {
	p.asked++
	return p.hints
}

func (p *provider) Allocate(_ *v1.Pod, c *v1.Container, h topology.Hint) error {
	if c.Name == p.fails {
		return errors.New("no cpu")
	}
	p.allocated = append(p.allocated, c.Name+" "+h.String())
	return nil
}

func TestAdmit(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "init"}}, Containers: []v1.Container{{Name: "app"}}}}
	one := topology.Hints{"cpu": {{Nodes: 1, Preferred: true}}}
	for _, c := range []struct {
		config        topology.Config
		hints         topology.Hints
		fails         string
		allocated     string
		asked         int
		reason, about string
	}{
		{config: topology.Config{}, hints: one, allocated: "init any,app any"},
		{config: topology.Config{Policy: "restricted"}, hints: one, allocated: "init 0 preferred,app 0 preferred", asked: 2},
		{config: topology.Config{Policy: "restricted", Scope: "pod"}, hints: one, allocated: "init 0 preferred,app 0 preferred", asked: 1},
		{config: topology.Config{Policy: "restricted"}, hints: topology.Hints{"cpu": nil}, asked: 1, reason: "TopologyAffinityError", about: "cpu"},
		{config: topology.Config{Policy: "restricted", Scope: "pod"}, hints: topology.Hints{"cpu": nil}, asked: 1, reason: "TopologyAffinityError", about: "cpu"},
		{config: topology.Config{Policy: "none"}, fails: "app", allocated: "init any", reason: "UnexpectedAdmissionError", about: "Allocate failed due to no cpu, which is unexpected"},
	} {
		from := &provider{hints: c.hints, fails: c.fails}
		affinities, refusal := policy(t, c.config, 3).Admit(pod, from)
		if got := strings.Join(from.allocated, ","); got != c.allocated || from.asked != c.asked {
			t.Errorf("%+v: allocated %q after %d questions", c, got, from.asked)
		}
		if c.reason == "" && (refusal != nil || len(affinities) != 2) {
			t.Errorf("%+v: %v, refused by %v", c, affinities, refusal)
		}
		if c.reason != "" && (refusal == nil || refusal.Reason != c.reason || !strings.Contains(refusal.Error(), c.about)) {
			t.Errorf("%+v: refused by %v", c, refusal)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	nine := topology.Mask(1<<9 - 1)
	for want, c := range map[string]struct {
		config  topology.Config
		options map[string]string
		nodes   topology.Mask
	}{
		"":                               {topology.Config{}, nil, 0},
		`topologyManagerPolicy "strict"`: {topology.Config{Policy: "strict"}, nil, 1},
		`topologyManagerScope "node"`:    {topology.Config{Scope: "node"}, nil, 1},
		"no NUMA nodes":                  {topology.Config{Policy: "restricted"}, nil, 0},
		"has 9 NUMA nodes, more than 8":  {topology.Config{Policy: "restricted"}, nil, nine},
		"distance from NUMA node 0 to 0": {topology.Config{Policy: "restricted"}, map[string]string{"prefer-closest-numa-nodes": "true", "max-allowable-numa-nodes": "9"}, nine},
		`"fast" is none of`:              {topology.Config{}, map[string]string{"fast": "true"}, 1},
		"must be at least 8":             {topology.Config{}, map[string]string{"max-allowable-numa-nodes": "7"}, 1},
		`numa-nodes is "maybe"`:          {topology.Config{}, map[string]string{"prefer-closest-numa-nodes": "maybe"}, 1},
	} {
		config, err := c.config.ParseOptions(c.options)
		if err == nil {
			_, err = topology.New(config, topology.Machine{Nodes: c.nodes})
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// The time follows from the sets of nodes, not from the number of combinations.
func BenchmarkMergeEightNodes(b *testing.B) {
	p := must.Get(topology.New(topology.Config{Policy: topology.PolicyBestEffort}, topology.Machine{Nodes: 255}))(b)
	var all []topology.Hint
	for m := range topology.Mask(255).Subsets() {
		all = append(all, topology.Hint{Nodes: m})
	}
	for b.Loop() {
		p.Merge(topology.Hints{"cpu": all, "memory": all, "hugepages-2Mi": all, "hugepages-1Gi": all})
	}
}
