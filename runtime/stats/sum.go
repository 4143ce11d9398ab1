package stats

// sums record, by pod, the CPU time of its containers, so that the sum over them does not fall when
// a container is removed.
type sums map[string]*podSum

type podSum struct {
	gone uint64            // of removed containers, in nanoseconds
	last map[string]uint64 // of the other containers, by container ID
	seen bool
}

// total returns the CPU time of the pod since its first reading.
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

// sweep drops pods that were not read since the last sweep.
func (s sums) sweep() {
	for pod, sum := range s {
		if !sum.seen {
			delete(s, pod)
		}
		sum.seen = false
	}
}
