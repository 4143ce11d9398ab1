package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/topology"
)

// hintRecord is a topology hint as recorded: no nodes means any.
type hintRecord struct {
	Nodes     topology.Mask `json:"nodes"`
	Preferred bool          `json:"preferred"`
}

func (h hintRecord) hint() topology.Hint {
	return topology.Hint{Nodes: h.Nodes, Preferred: h.Preferred}
}

func hints(recorded map[string][]hintRecord) topology.Hints {
	all := topology.Hints{}
	for name, list := range recorded {
		all[v1.ResourceName(name)] = []topology.Hint{}
		for _, h := range list {
			all[v1.ResourceName(name)] = append(all[v1.ResourceName(name)], h.hint())
		}
	}
	return all
}

type machineRecord struct {
	Nodes     []int            `json:"nodes"`
	Distances map[int][]uint64 `json:"distances"`
}

func (m machineRecord) machine() (topology.Machine, error) {
	nodes, err := topology.MaskOf(m.Nodes...)
	return topology.Machine{Nodes: nodes, Distances: m.Distances}, err
}

// topologyCase is a random machine with the hints of several providers, and the affinity that a kubelet's topology manager merged from them.
type topologyCase struct {
	Name string `json:"name"`
	Case struct {
		Machine machineRecord             `json:"machine"`
		Policy  string                    `json:"policy"`
		Closest bool                      `json:"closest"`
		Hints   []map[string][]hintRecord `json:"hints"`
		// Want has each answer of the kubelet in several attempts.
		Want []topologyWant `json:"want"`
	} `json:"case"`
}

type topologyWant struct {
	Hint  hintRecord `json:"hint"`
	Admit bool       `json:"admit"`
}

func checkTopology(line []byte) (outcome, error) {
	var c topologyCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("topology: %w", err)
	}
	if c.Name == "" || len(c.Case.Want) == 0 {
		return outcome{}, errors.New("topology: the line has no name or answer")
	}
	machine, err := c.Case.Machine.machine()
	if err != nil {
		return outcome{}, fmt.Errorf("topology %s: %w", c.Name, err)
	}
	policy, err := topology.New(topology.Config{Policy: c.Case.Policy, PreferClosest: c.Case.Closest}, machine)
	if err != nil {
		return outcome{}, fmt.Errorf("topology %s: %w", c.Name, err)
	}
	var all []topology.Hints
	for _, h := range c.Case.Hints {
		all = append(all, hints(h))
	}
	got := policy.Merge(all...)
	answer := topologyWant{hintRecord(got.Hint), got.Admitted}
	o := outcome{name: c.Name}
	if !slices.Contains(c.Case.Want, answer) {
		o.diff = fmt.Sprintf("  %s: want %v, got %v", line, c.Case.Want, answer)
	}
	return o, nil
}
