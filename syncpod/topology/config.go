package topology

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// The policies of a kubelet's field topologyManagerPolicy.
const (
	// PolicyNone aligns nothing.
	PolicyNone = "none"
	// PolicyBestEffort admits all pods, and aligns resources where it can.
	PolicyBestEffort = "best-effort"
	// PolicyRestricted refuses pods whose resources cannot come from the same, preferred NUMA nodes.
	PolicyRestricted = "restricted"
	// PolicySingleNUMANode refuses pods whose resources cannot come from one NUMA node.
	PolicySingleNUMANode = "single-numa-node"
)

// The scopes of a kubelet's field topologyManagerScope.
const (
	// ScopeContainer aligns each container's resources.
	ScopeContainer = "container"
	// ScopePod aligns the resources of all containers in a pod with each other.
	ScopePod = "pod"
)

// DefaultMaxNodes is the number of NUMA nodes up to which a policy other than none works, unless Config.MaxNodes is higher.
const DefaultMaxNodes = 8

// A Config is a policy in a kubelet configuration's terms. The zero Config is the policy none.
type Config struct {
	// Policy is one of the policies; empty means none.
	Policy string
	// Scope is one of the scopes; empty means container.
	Scope string
	// PreferClosest means that the best of several sets with as many nodes is the one with the shortest distances: the option
	// prefer-closest-numa-nodes.
	PreferClosest bool
	// MaxNodes raises DefaultMaxNodes: the option max-allowable-numa-nodes. Each node more may double the time of a decision.
	MaxNodes int
}

// ParseOptions returns the config with a kubelet's topologyManagerPolicyOptions.
func (c Config) ParseOptions(options map[string]string) (Config, error) {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		var err error
		switch value := options[name]; name {
		case "prefer-closest-numa-nodes":
			c.PreferClosest, err = strconv.ParseBool(value)
		case "max-allowable-numa-nodes":
			c.MaxNodes, err = strconv.Atoi(value)
			if err == nil && c.MaxNodes < DefaultMaxNodes {
				err = fmt.Errorf("it must be at least %d", DefaultMaxNodes)
			}
		default:
			return c, fmt.Errorf("topologyManagerPolicyOptions: %q is none of max-allowable-numa-nodes and prefer-closest-numa-nodes", name)
		}
		if err != nil {
			return c, fmt.Errorf("topologyManagerPolicyOptions: %s is %q: %w", name, options[name], err)
		}
	}
	return c, nil
}

// A Machine is the NUMA topology of a node.
type Machine struct {
	// Nodes are the NUMA nodes.
	Nodes Mask
	// Distances has the distances of a NUMA node to each node, as in its file distance in sysfs, at the index of the other node's ID. Only
	// Config.PreferClosest needs them.
	Distances map[int][]uint64
}

// A Policy decides about NUMA nodes. It is a value without state, and may be used concurrently. The zero Policy is none.
type Policy struct {
	config  Config
	machine Machine
}

// New returns a Policy for a machine. The caller must not modify the machine's distances later.
func New(config Config, machine Machine) (Policy, error) {
	policies := []string{"", PolicyNone, PolicyBestEffort, PolicyRestricted, PolicySingleNUMANode}
	scopes := []string{"", ScopeContainer, ScopePod}
	limit := max(config.MaxNodes, DefaultMaxNodes)
	p := Policy{config, machine}
	switch {
	case !slices.Contains(policies, config.Policy):
		return Policy{}, fmt.Errorf("topologyManagerPolicy %q is not one of %q", config.Policy, policies[1:])
	case !slices.Contains(scopes, config.Scope):
		return Policy{}, fmt.Errorf("topologyManagerScope %q is not one of %q", config.Scope, scopes[1:])
	case p.none():
		return p, nil
	case machine.Nodes == 0:
		return Policy{}, fmt.Errorf("topologyManagerPolicy %q: the machine has no NUMA nodes", config.Policy)
	case machine.Nodes.Count() > limit:
		return Policy{}, fmt.Errorf("topologyManagerPolicy %q: the machine has %d NUMA nodes, more than %d", config.Policy, machine.Nodes.Count(), limit)
	}
	if config.PreferClosest {
		for a := range machine.Nodes.Nodes() {
			for b := range machine.Nodes.Nodes() {
				if len(machine.Distances[a]) <= b {
					return Policy{}, fmt.Errorf("prefer-closest-numa-nodes: the distance from NUMA node %d to %d is missing", a, b)
				}
			}
		}
	}
	return p, nil
}

func (p Policy) none() bool { return p.config.Policy == "" || p.config.Policy == PolicyNone }
