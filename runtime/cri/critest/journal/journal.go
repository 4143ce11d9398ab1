package journal

import (
	"slices"
	"strings"
	"time"
)

// Journal is calls in order of arrival. Its queries return parts of it.
type Journal []Call

// Where keeps the calls for which keep is true.
func (j Journal) Where(keep func(Call) bool) Journal {
	var kept Journal
	for _, c := range j {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// Of keeps calls of these methods.
func (j Journal) Of(methods ...Method) Journal {
	return j.Where(func(c Call) bool { return slices.Contains(methods, c.Method) })
}

// Pod keeps the calls about a pod, by its UID.
func (j Journal) Pod(uid string) Journal {
	return j.Where(func(c Call) bool { return c.PodUID == uid })
}

// Container keeps the calls about containers of this name.
func (j Journal) Container(name string) Journal {
	return j.Where(func(c Call) bool { return c.Container == name })
}

// ID keeps the calls about the container or sandbox of this ID.
func (j Journal) ID(id string) Journal {
	return j.Where(func(c Call) bool { return c.ContainerID == id || c.SandboxID == id })
}

// After keeps the calls that came after the n-th: take the length of a journal
// before an act and ask for what the act has caused.
func (j Journal) After(n int) Journal {
	return j.Where(func(c Call) bool { return c.N > n })
}

// Failed keeps the calls that ended with an error.
func (j Journal) Failed() Journal {
	return j.Where(func(c Call) bool { return c.Err != nil })
}

// Running keeps the calls that have not ended.
func (j Journal) Running() Journal {
	return j.Where(func(c Call) bool { return !c.Done() })
}

// Changes returns the calls that change something, without those that read.
func (j Journal) Changes() Journal {
	return j.Where(func(c Call) bool { return c.Method.changes() })
}

// Count is the number of calls of these methods, or of all for none.
func (j Journal) Count(methods ...Method) int {
	if len(methods) == 0 {
		return len(j)
	}
	return len(j.Of(methods...))
}

// Counts is the number of calls by method.
func (j Journal) Counts() map[Method]int {
	m := map[Method]int{}
	for _, c := range j {
		m[c.Method]++
	}
	return m
}

// Sequence is the subjects of the calls, see [Call.Subject].
func (j Journal) Sequence() []string {
	var s []string
	for _, c := range j {
		s = append(s, c.Subject())
	}
	return s
}

// MaxConcurrent is the maximum number of concurrent calls. A call that ends at the instant at which
// another starts does not overlap it.
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

// Span is the time from the first start to the last end.
func (j Journal) Span() time.Duration {
	var first, last time.Time
	for _, c := range j {
		if first.IsZero() || c.Start.Before(first) {
			first = c.Start
		}
		if c.End.After(last) {
			last = c.End
		}
	}
	if last.Before(first) {
		return 0
	}
	return last.Sub(first)
}

// String is a line for each call.
func (j Journal) String() string {
	var b strings.Builder
	for _, c := range j {
		b.WriteString(c.String())
		b.WriteByte('\n')
	}
	return b.String()
}
