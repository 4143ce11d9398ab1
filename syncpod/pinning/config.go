package pinning

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
	"github.com/podsync/podsync/syncpod/topology"
)

// Config configures a Manager. State is required. Without policies no container is restricted.
type Config struct {
	// State is the absolute path of the file with the allocations. Its directory is created when it is needed.
	State string
	// CPUs has the policy for CPUs, and the machine. Its Topology is required by any policy.
	CPUs cpu.Config
	// Memory has the policy for memory.
	Memory numamemory.Config
	// Topology is the policy that aligns CPUs, memory and the resources of Providers. Distances are those between NUMA nodes,
	// for its option PreferClosest.
	Topology  topology.Config
	Distances map[int][]uint64
	// Providers allocate further resources that are close to NUMA nodes, such as devices. They come before CPUs and memory.
	Providers []Provider
	// Log receives a line for each allocation. Default: no log.
	Log logr.Logger
}

// A Provider allocates a resource to pods in their admission.
type Provider interface {
	topology.Provider
	// RemovePod frees what it has allocated to a pod that is not admitted, or that has ended. It succeeds if there is nothing.
	RemovePod(ctx context.Context, pod types.UID) error
}

// New returns a Manager with the allocations of earlier agents. An error names the field, or what has changed since they were
// made.
func New(c Config) (*Manager, error) {
	if !filepath.IsAbs(c.State) {
		return nil, fmt.Errorf("pinning: Config.State is %q, want an absolute path", c.State)
	}
	m := &Manager{file: file(c.State), providers: c.Providers, log: c.Log, changed: func() {}}
	for i, p := range c.Providers {
		if p == nil {
			return nil, fmt.Errorf("pinning: Config.Providers[%d] is nil", i)
		}
	}
	var err error
	if m.cpus, err = cpu.New(c.CPUs); err != nil {
		return nil, fmt.Errorf("pinning: Config.CPUs: %w", err)
	}
	machine := topology.Machine{Distances: c.Distances}
	for _, p := range c.CPUs.Topology.CPUs {
		m, err := topology.MaskOf(p.Node)
		if err != nil {
			return nil, fmt.Errorf("pinning: Config.CPUs.Topology: %w", err)
		}
		machine.Nodes |= m
	}
	for _, n := range c.Memory.Nodes {
		m, err := topology.MaskOf(n.ID)
		if err != nil {
			return nil, fmt.Errorf("pinning: Config.Memory: %w", err)
		}
		machine.Nodes |= m
	}
	if m.policy, err = topology.New(c.Topology, machine); err != nil {
		return nil, fmt.Errorf("pinning: Config.Topology: %w", err)
	}
	free, err := numamemory.New(c.Memory)
	if err != nil {
		return nil, fmt.Errorf("pinning: Config.Memory: %w", err)
	}
	stored, err := m.file.read()
	if err == nil {
		m.state.CPUs = stored.CPUs
		m.state.Memory, err = free.Restore(stored.Memory)
	}
	if err == nil {
		err = m.cpus.Check(m.state.CPUs)
	}
	if err != nil {
		return nil, fmt.Errorf("pinning: Config.State: %s: %w", c.State, err)
	}
	m.shared = m.cpus.Shared(m.state.CPUs)
	return m, nil
}
