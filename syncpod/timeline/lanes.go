package timeline

import (
	"slices"
	"time"
)

// lanes returns, for each entry, the line in its pod or container on which it is drawn, so that no two entries overlap.
// States are on line 0, unless clocks make them overlap.
func lanes(entries []entry, now time.Time) []int {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return entries[a].Begin.Compare(entries[b].Begin) })
	free := map[string][]time.Time{} // from when on each line is free
	lane := make([]int, len(entries))
	for _, i := range order {
		e := &entries[i]
		first := 1
		if e.Kind.state() {
			first = 0
		}
		lines := free[e.Container]
		at := first
		for at < len(lines) && lines[at].After(e.Begin) {
			at++
		}
		for len(lines) <= at {
			lines = append(lines, time.Time{})
		}
		lines[at] = e.end(now)
		free[e.Container], lane[i] = lines, at
	}
	return lane
}

// end returns when an entry ends, or now.
func (e *entry) end(now time.Time) time.Time {
	if e.End.IsZero() {
		return now
	}
	return e.End
}
