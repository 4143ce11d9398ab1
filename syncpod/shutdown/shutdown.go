// Package shutdown has the policy by which the pods on a node stop before the node shuts down: in which order, and how
// much time each pod has, as in a kubelet (KEP-2000, KEP-2712). Loop.Shutdown of package loop stops the pods. The
// embedder detects the shutdown, for example with systemd's inhibitor locks.
//
// Pods stop in groups by priority, the lowest first. A group begins when all pods of the previous group have stopped,
// or when that group's period has passed. Each pod has its own grace period, but not more than its group's period.
// [Order] computes the groups of a node's pods; it is pure.
package shutdown

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// A Policy has the time for the pods. Set either ByPriority, or the two other fields, which are then translated
// to groups. The zero Policy has no groups, and no time for any pod.
type Policy struct {
	// GracePeriod is the time of the whole shutdown, and CriticalGracePeriod the part of it for pods
	// with a priority of system-cluster-critical or higher: shutdownGracePeriod and
	// shutdownGracePeriodCriticalPods of a KubeletConfiguration.
	GracePeriod, CriticalGracePeriod time.Duration
	// ByPriority are the groups, in any order: shutdownGracePeriodByPodPriority.
	ByPriority []Period
}

// A Period is the time of one group. The group has the pods whose priority is at least Priority, and lower than that
// of the next group. Pods with a lower priority than all groups belong to the lowest group.
type Period struct {
	Priority    int32
	GracePeriod time.Duration
}

// clusterCritical is the priority of the class system-cluster-critical.
const clusterCritical = 2_000_000_000

// Validate returns an error that names the invalid field.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"GracePeriod", p.GracePeriod}, {"CriticalGracePeriod", p.CriticalGracePeriod}} {
		if err := check(f.name, f.value); err != nil {
			return err
		}
	}
	switch {
	case p.CriticalGracePeriod > p.GracePeriod:
		return fmt.Errorf("CriticalGracePeriod is %v, and GracePeriod, which it is a part of, %v", p.CriticalGracePeriod, p.GracePeriod)
	case len(p.ByPriority) > 0 && p.GracePeriod > 0:
		return fmt.Errorf("GracePeriod is %v and ByPriority has %d groups: only one of them may be set", p.GracePeriod, len(p.ByPriority))
	}
	known := map[int32]int{}
	for i, g := range p.ByPriority {
		if err := check(fmt.Sprintf("ByPriority[%d].GracePeriod", i), g.GracePeriod); err != nil {
			return err
		}
		if first, twice := known[g.Priority]; twice {
			return fmt.Errorf("ByPriority[%d].Priority is %d, which is that of ByPriority[%d]", i, g.Priority, first)
		}
		known[g.Priority] = i
	}
	return nil
}

func check(name string, d time.Duration) error {
	if d < 0 || d%time.Second != 0 {
		return fmt.Errorf("%s is %v: it must be whole seconds, and not less than none", name, d)
	}
	return nil
}

// Total returns the maximum duration of a shutdown. An inhibitor must delay the shutdown for that time.
func (p Policy) Total() time.Duration {
	var total time.Duration
	for _, g := range p.Periods() {
		total += g.GracePeriod
	}
	return total
}

// Periods returns the groups in the order in which they stop: the lowest priority first.
func (p Policy) Periods() []Period {
	if len(p.ByPriority) == 0 && p.GracePeriod > 0 {
		return []Period{{0, p.GracePeriod - p.CriticalGracePeriod}, {clusterCritical, p.CriticalGracePeriod}}
	}
	order := make([]*Period, len(p.ByPriority)) // pointers, because a sort of structs adds 7 kB to a program
	for i := range p.ByPriority {
		order[i] = &p.ByPriority[i]
	}
	slices.SortFunc(order, func(a, b *Period) int { return cmp.Compare(a.Priority, b.Priority) })
	periods := make([]Period, len(order))
	for i, period := range order {
		periods[i] = *period
	}
	return periods
}
