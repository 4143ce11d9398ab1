package stats

// sums remember, by pod, what its containers have used, so that the CPU time of a pod that is
// the sum of theirs does not fall when one of them is gone.
type sums map[string]*podSum

type podSum struct {
	gone uint64            // of containers that are gone, in nanoseconds
	last map[string]uint64 // of the others, by container ID
	seen bool
}

// total returns what the pod has used since it was first read.
func (s sums) total(pod string, containers []Container) uint64 {
	sum := s[pod]
	if sum == nil {
		sum = &podSum{}
		s[pod] = sum
	}
	now, total := make(map[string]uint64, len(containers)), uint64(0)
	for i := range containers {
		used := *containers[i].CPU.UsageCoreNanoSeconds
		now[containers[i].ID.ID] = used
		total += used
	}
	for id, used := range sum.last {
		if _, there := now[id]; !there {
			sum.gone += used
		}
	}
	sum.last, sum.seen = now, true
	return sum.gone + total
}

// sweep forgets what has not been read since the last sweep.
func (s sums) sweep() {
	for pod, sum := range s {
		if !sum.seen {
			delete(s, pod)
		}
		sum.seen = false
	}
}
