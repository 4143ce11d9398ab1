package cgroup

import (
	"maps"
)

// Larger returns settings with the larger limit each time, so that the containers fit before and after a resize. The
// period is next's.
func Larger(last, next Resources) Resources {
	r := next
	r.CPUShares = max(last.CPUShares, next.CPUShares)
	r.CPUQuota, r.CPUPeriod = largerQuota(last, next)
	r.Memory = largerLimit(last.Memory, next.Memory, 1)
	r.PIDs = largerLimit(last.PIDs, next.PIDs, 0)
	r.HugePages = maps.Clone(next.HugePages)
	for size, limit := range last.HugePages {
		if limit > r.HugePages[size] {
			r.HugePages = with(r.HugePages, size, limit)
		}
	}
	return r
}

func with(m map[int64]int64, key, value int64) map[int64]int64 {
	if m == nil {
		m = map[int64]int64{}
	}
	m[key] = value
	return m
}

// largerLimit returns the larger limit. Nil, or a value below least, means no limit.
func largerLimit(a, b *int64, least int64) *int64 {
	if a == nil || b == nil || *a < least || *b < least {
		return nil
	}
	return new(max(*a, *b))
}

// largerQuota returns the larger CPU time share, in b's period if it has one.
func largerQuota(a, b Resources) (quota, period *int64) {
	if a.CPUQuota == nil || b.CPUQuota == nil || *a.CPUQuota <= 0 || *b.CPUQuota <= 0 ||
		a.CPUPeriod == nil || b.CPUPeriod == nil || *a.CPUPeriod <= 0 {
		return nil, nil
	}
	of := float64(*a.CPUQuota) / float64(*a.CPUPeriod) * float64(*b.CPUPeriod)
	return new(max(int64(of), *b.CPUQuota)), b.CPUPeriod
}
