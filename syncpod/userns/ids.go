package userns

import (
	"cmp"
	"fmt"
	"slices"
)

// Unit is a pod's minimum number of IDs. IDs.PerPod must be a multiple of it.
const Unit = 65536

// allIDs counts the user IDs, and the group IDs, that Linux has.
const allIDs = 1 << 32

// IDs is the range of user and group IDs that pods may get. The zero value has all IDs except the first 65536.
type IDs struct {
	// PerPod is how many IDs each pod gets, a multiple of Unit. Default Unit.
	PerPod uint32
	// First is the first ID, a multiple of PerPod, and at least PerPod, because no pod may get the IDs of the node's own
	// users. Default PerPod.
	First uint32
	// Count is how many IDs pods may get from First on, a multiple of PerPod. Default: all IDs from First on.
	Count uint32
}

// complete returns the IDs with their defaults.
func (i IDs) complete() (IDs, error) {
	i.PerPod = cmp.Or(i.PerPod, Unit)
	if i.PerPod%Unit != 0 {
		return i, fmt.Errorf("PerPod is %d, want a multiple of %d", i.PerPod, Unit)
	}
	i.First = cmp.Or(i.First, i.PerPod)
	if i.First%i.PerPod != 0 {
		return i, fmt.Errorf("%s is %d, want a multiple of PerPod, which is %d", "First", i.First, i.PerPod)
	}
	if i.Count == 0 {
		i.Count = (uint32(allIDs-1) - i.First + 1) / i.PerPod * i.PerPod
	}
	if i.Count == 0 || i.Count%i.PerPod != 0 || uint64(i.First)+uint64(i.Count) > allIDs {
		return i, fmt.Errorf("%s is %d, want a multiple of PerPod, which is %d, and at most %d with First", "Count", i.Count, i.PerPod, uint64(allIDs))
	}
	return i, nil
}

// Pods returns how many pods can have a user namespace at the same time. The error names a field with an invalid value.
func (i IDs) Pods() (int, error) {
	i, err := i.complete()
	return int(i.Count / max(i.PerPod, 1)), err
}

// A span is a range of the node's IDs.
type span struct{ first, length uint32 }

func (s span) end() uint64 { return uint64(s.first) + uint64(s.length) }

func (s span) overlaps(other span) bool {
	return uint64(s.first) < other.end() && uint64(other.first) < s.end()
}

// free returns the lowest range that overlaps no taken range, and whether there is one. Ranges that were taken under
// an earlier configuration may have other sizes, and may be outside the IDs.
func (i IDs) free(taken []span) (found span, ok bool) {
	order := make([]*span, len(taken)) // pointers, because a sort of structs adds 6 kB to a program
	for n := range taken {
		order[n] = &taken[n]
	}
	slices.SortFunc(order, func(a, b *span) int { return cmp.Compare(a.first, b.first) })
	next := uint64(i.First)
	for _, t := range order {
		if uint64(t.first) >= next+uint64(i.PerPod) {
			break
		}
		if t.end() > next {
			slots := (t.end() - uint64(i.First) + uint64(i.PerPod) - 1) / uint64(i.PerPod)
			next = uint64(i.First) + slots*uint64(i.PerPod)
		}
	}
	if next+uint64(i.PerPod) > uint64(i.First)+uint64(i.Count) {
		return span{}, false
	}
	return span{uint32(next), i.PerPod}, true
}
