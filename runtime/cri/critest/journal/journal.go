package journal

import (
	"slices"
	"strings"
)

// Journal is a list of calls in order of arrival. Its queries return parts of it.
type Journal []Call

// Where returns the calls for which keep returns true.
func (j Journal) Where(keep func(Call) bool) Journal {
	var kept Journal
	for _, c := range j {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// Of returns these methods' calls.
func (j Journal) Of(methods ...Method) Journal {
	return j.Where(func(c Call) bool { return slices.Contains(methods, c.Method) })
}

// Pod returns the calls for a pod, by its UID.
func (j Journal) Pod(uid string) Journal {
	return j.Where(func(c Call) bool { return c.PodUID == uid })
}

// Container returns the calls for containers with this name.
func (j Journal) Container(name string) Journal {
	return j.Where(func(c Call) bool { return c.Container == name })
}

// After returns the calls after the n-th. To get the calls that an action causes, pass the length of the
// journal before the action.
func (j Journal) After(n int) Journal {
	return j.Where(func(c Call) bool { return c.N > n })
}

// Changes returns the calls to methods that change the runtime's state, without those that only read.
func (j Journal) Changes() Journal {
	return j.Where(func(c Call) bool { return c.Method.changes() })
}

// Count returns the number of calls to these methods, or of all calls if there are none.
func (j Journal) Count(methods ...Method) int {
	if len(methods) == 0 {
		return len(j)
	}
	return len(j.Of(methods...))
}

// Counts returns the number of calls by method.
func (j Journal) Counts() map[Method]int {
	m := map[Method]int{}
	for _, c := range j {
		m[c.Method]++
	}
	return m
}

// Sequence returns the calls' subjects, see [Call.Subject].
func (j Journal) Sequence() []string {
	var s []string
	for _, c := range j {
		s = append(s, c.Subject())
	}
	return s
}

// MaxConcurrent returns the maximum number of concurrent calls. A call that ends at the instant at
// which another starts does not overlap it.
func (j Journal) MaxConcurrent() int {
	most := 0
	for _, a := range j {
		n := 0
		for _, b := range j {
			if !b.Start.After(a.Start) && (!b.Done() || b.End.After(a.Start)) || b.N == a.N {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// String returns a line for each call.
func (j Journal) String() string {
	var b strings.Builder
	for _, c := range j {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}
