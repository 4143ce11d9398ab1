package topology

import (
	"fmt"
	"iter"
	"math/bits"
	"strconv"
	"strings"
)

// MaxNodes is how many NUMA nodes a [Mask] can hold.
const MaxNodes = 64

// A Mask is a set of NUMA nodes: bit n is set if node n is in it. Go's operators combine masks: a&b is the intersection, a|b the
// union, and a&^b the difference.
type Mask uint64

// MaskOf returns the set with the given nodes. Each must be from 0 to 63.
func MaskOf(nodes ...int) (Mask, error) {
	var m Mask
	for _, n := range nodes {
		if n < 0 || n >= MaxNodes {
			return 0, fmt.Errorf("NUMA node %d is not from 0 to %d", n, MaxNodes-1)
		}
		m |= 1 << n
	}
	return m, nil
}

// Has reports whether node n is in the set.
func (m Mask) Has(n int) bool { return n >= 0 && n < MaxNodes && m>>n&1 == 1 }

// Count returns how many nodes the mask has.
func (m Mask) Count() int { return bits.OnesCount64(uint64(m)) }

// Nodes yields the nodes in ascending order.
func (m Mask) Nodes() iter.Seq[int] {
	return func(yield func(int) bool) {
		for rest := uint64(m); rest != 0; rest &= rest - 1 {
			if !yield(bits.TrailingZeros64(rest)) {
				return
			}
		}
	}
}

// Subsets yields each non-empty subset: first those with one node, then those with two, and so on, those of the same size in ascending
// order as numbers. A set with n nodes has 2^n - 1.
func (m Mask) Subsets() iter.Seq[Mask] {
	return func(yield func(Mask) bool) {
		n := m.Count()
		for size := 1; size <= n; size++ {
			if !m.subsets(size, yield) {
				return
			}
		}
	}
}

// subsets yields the subsets of one size. It reports whether the caller wants more.
func (m Mask) subsets(size int, yield func(Mask) bool) bool {
	if size == 0 {
		return yield(0)
	}
	// The highest node of a subset weighs most in its number.
	for rest := m; rest != 0; rest &= rest - 1 {
		highest := rest & -rest
		below := m & (highest - 1)
		if below.Count() < size-1 {
			continue
		}
		if !below.subsets(size-1, func(s Mask) bool { return yield(s | highest) }) {
			return false
		}
	}
	return true
}

// NarrowerThan reports whether m has fewer nodes than other, or as many and lower ones: of two sets of the same size, the smaller number is
// narrower. A kubelet orders NUMA affinities in this way.
func (m Mask) NarrowerThan(other Mask) bool {
	if a, b := m.Count(), other.Count(); a != b {
		return a < b
	}
	return m < other
}

// String returns the nodes as in a cpuset: "0-2,5"; "" for the empty set.
func (m Mask) String() string {
	var b strings.Builder
	for n := 0; n < MaxNodes; n++ {
		if !m.Has(n) {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(n))
		first := n
		for m.Has(n + 1) {
			n++
		}
		if n > first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(n))
		}
	}
	return b.String()
}
