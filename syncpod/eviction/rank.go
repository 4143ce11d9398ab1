package eviction

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Rank returns pods in the order in which they would be evicted for a signal. For memory and disks:
// first pods whose usage is unknown, then pods that use more than they request, then the others;
// within each group lower priority first, and then higher usage above the request. For processes:
// lower priority first, then more processes. Equal pods keep their order. A Candidate without a Pod
// is left out. Rank does not modify its argument. In a kubelet these are the rank functions of the eviction manager.
func Rank(pods []Candidate, s Signal, on Layout) []Candidate {
	pods = withPods(pods)
	standings := make([]*standing, len(pods))
	for i, p := range pods {
		standings[i] = standingOf(p, s, on)
	}
	slices.SortStableFunc(standings, func(a, b *standing) int {
		if s == PIDAvailable {
			return cmp.Or(cmp.Compare(a.priority, b.priority), before(a.unknown, b.unknown), b.beyond.Cmp(a.beyond))
		}
		return cmp.Or(before(a.unknown, b.unknown), before(a.exceeds, b.exceeds), cmp.Compare(a.priority, b.priority), b.beyond.Cmp(a.beyond))
	})
	ranked := make([]Candidate, len(pods))
	for i := range standings {
		ranked[i] = standings[i].Candidate
	}
	return ranked
}

// withPods returns the candidates that have a pod.
func withPods(all []Candidate) []Candidate {
	lacks := func(c Candidate) bool { return c.Pod == nil }
	if !slices.ContainsFunc(all, lacks) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), lacks)
}

// A standing has the pod properties that determine its rank.
type standing struct {
	Candidate
	unknown, exceeds bool
	priority         int32
	// beyond is the usage minus the request, which may be negative.
	beyond resource.Quantity
}

func standingOf(p Candidate, s Signal, on Layout) *standing {
	r := &standing{Candidate: p, unknown: p.Usage == nil, priority: priorityOf(p.Pod)}
	if r.unknown {
		return r
	}
	name := ResourceOf(s)
	used := p.Usage.of(p.Pod, name, on.parts(s))
	r.exceeds = used.Cmp(requested(p.Pod, name)) > 0
	// Pods cannot request inodes. A kubelet subtracts the request for storage, in bytes, from the inodes, and
	// so does this function.
	counted := name
	if name == inodes {
		counted = v1.ResourceEphemeralStorage
	}
	r.beyond = used
	r.beyond.Sub(requested(p.Pod, counted))
	return r
}

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// before sorts true first.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
