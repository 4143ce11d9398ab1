package cpu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A Policy decides whether containers can have exclusive CPUs.
type Policy string

const (
	// None gives no container exclusive CPUs.
	None Policy = "none"
	// Static gives exclusive CPUs to containers of Guaranteed pods whose CPU request is an integer.
	Static Policy = "static"
)

// Options change the static policy. Each has the name of a kubelet's cpuManagerPolicyOptions.
type Options struct {
	// FullPCPUsOnly (full-pcpus-only) allocates whole cores, and rejects a request for part of one.
	FullPCPUsOnly bool
	// DistributeAcrossNUMA (distribute-cpus-across-numa) spreads CPUs evenly if one NUMA node cannot provide them.
	DistributeAcrossNUMA bool
	// AlignBySocket (align-by-socket) aligns with sockets instead of NUMA nodes.
	AlignBySocket bool
	// DistributeAcrossCores (distribute-cpus-across-cores) spreads CPUs over cores.
	DistributeAcrossCores bool
	// StrictReservation (strict-cpu-reservation) keeps containers without exclusive CPUs off the reserved CPUs.
	StrictReservation bool
	// PreferAlignByUncoreCache (prefer-align-cpus-by-uncorecache) takes CPUs that share an uncore cache where it can.
	PreferAlignByUncoreCache bool
}

// ParseOptions reads options as they stand in a KubeletConfiguration.
func ParseOptions(values map[string]string) (Options, error) {
	var o Options
	fields := map[string]*bool{
		"full-pcpus-only":                  &o.FullPCPUsOnly,
		"distribute-cpus-across-numa":      &o.DistributeAcrossNUMA,
		"align-by-socket":                  &o.AlignBySocket,
		"distribute-cpus-across-cores":     &o.DistributeAcrossCores,
		"strict-cpu-reservation":           &o.StrictReservation,
		"prefer-align-cpus-by-uncorecache": &o.PreferAlignByUncoreCache,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		field, known := fields[name]
		if !known {
			return Options{}, fmt.Errorf("CPU policy option %.60q is unknown", name)
		}
		value, err := strconv.ParseBool(values[name])
		if err != nil {
			return Options{}, fmt.Errorf("CPU policy option %s: %.20q is not a boolean", name, values[name])
		}
		*field = value
	}
	return o, nil
}

// Config configures an Allocator.
type Config struct {
	// Topology is the machine. Required by the static policy.
	Topology Topology
	// Policy is None if empty.
	Policy Policy
	// Options change the static policy.
	Options Options
	// Reserved are the CPUs of the system, which no container has alone. If empty, New chooses ReservedCount CPUs.
	Reserved Set
	// ReservedCount is the number of reserved CPUs. Zero means as many as Reserved has.
	ReservedCount int
}

// An Allocator decides which CPUs a container runs on. It is immutable, and its methods may be called concurrently.
type Allocator struct {
	policy   Policy
	options  Options
	layout   *layout
	reserved Set
}

// New returns an Allocator. An error names the field.
func New(c Config) (*Allocator, error) {
	switch c.Policy {
	case "", None:
		if c.Options != (Options{}) {
			return nil, errors.New("Options: the policy none has no options")
		}
		return &Allocator{policy: None}, nil
	case Static:
	default:
		return nil, fmt.Errorf("Policy: %.40q is neither none nor static", c.Policy)
	}
	l, err := newLayout(c.Topology)
	if err != nil {
		return nil, err
	}
	if err := c.Options.conflict(l); err != nil {
		return nil, err
	}
	a := &Allocator{policy: Static, options: c.Options, layout: l, reserved: c.Reserved}
	switch {
	case !l.all.Contains(c.Reserved):
		return nil, fmt.Errorf("field Reserved: not all of the CPUs %s are in the machine, which has %s", c.Reserved, l.all)
	case c.ReservedCount < 0, c.ReservedCount > l.all.Len(), c.ReservedCount != 0 && !c.Reserved.IsEmpty() && c.ReservedCount != c.Reserved.Len():
		return nil, fmt.Errorf("ReservedCount: %d, with %d reserved CPUs of %d", c.ReservedCount, c.Reserved.Len(), l.all.Len())
	case c.Reserved.IsEmpty():
		a.reserved = a.choose(l.all, c.ReservedCount)
	}
	return a, nil
}

// conflict returns an error if options exclude each other.
func (o Options) conflict(l *layout) error {
	for _, c := range []struct {
		excluded bool
		reason   string
	}{
		{o.FullPCPUsOnly && o.DistributeAcrossCores, "FullPCPUsOnly and DistributeAcrossCores exclude each other"},
		{o.DistributeAcrossNUMA && o.DistributeAcrossCores, "DistributeAcrossNUMA and DistributeAcrossCores exclude each other"},
		{o.PreferAlignByUncoreCache && o.DistributeAcrossCores, "PreferAlignByUncoreCache and DistributeAcrossCores exclude each other"},
		{o.PreferAlignByUncoreCache && o.DistributeAcrossNUMA, "PreferAlignByUncoreCache and DistributeAcrossNUMA exclude each other"},
		{o.AlignBySocket && len(l.sockets) > len(l.nodes), "AlignBySocket needs sockets that are not smaller than NUMA nodes"},
	} {
		if c.excluded {
			return errors.New("Options: " + c.reason)
		}
	}
	return nil
}
