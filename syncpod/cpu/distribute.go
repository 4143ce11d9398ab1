package cpu

import (
	"iter"
	"math"
	"slices"
)

// distribute spreads n CPUs evenly over as few NUMA nodes as can provide them, in chunks of the given size. Of several choices it makes
// the one after which the free CPUs of all nodes are most even. If no choice is even, it takes them as take does.
func (l *layout) distribute(free Set, n, chunk int, o Options) Set {
	if n == 0 || n%chunk != 0 || free.Len() < n {
		return l.take(free, n, o)
	}
	t := &taker{layout: l, free: free, need: n}
	order := t.nodeOrder()
	perNode := (l.all.Len()/chunk-1)/len(l.nodes) + 1
	for k := (n/chunk-1)/perNode + 1; k <= min(len(order), n/chunk); k++ {
		if s, ok := t.split(order, k, chunk); ok {
			return l.takeSplit(free, n, chunk, s, o)
		}
	}
	return l.take(free, n, o)
}

// A split is an even distribution: each node provides share CPUs, and those of extra provide the remainder in chunks, in turn.
type split struct {
	nodes, extra []int
	share        int
	imbalance    int
}

// split finds the best split over k of the nodes, which it tries in their order.
func (t *taker) split(order []int, k, chunk int) (split, bool) {
	free := make([]int, len(t.nodes))
	for i, g := range t.nodes {
		free[i] = g.cpus.common(t.free)
	}
	best := split{imbalance: math.MaxInt}
	share := t.need / k / chunk * chunk
	left := slices.Clone(free)
	trial := slices.Clone(free)
	for nodes := range choices(order, k) {
		total, fits := 0, true
		for _, i := range nodes {
			total += free[i]
			fits = fits && free[i] >= share
		}
		if !fits || total < t.need {
			continue
		}
		copy(left, free)
		for _, i := range nodes {
			left[i] -= share
		}
		remainder := t.need - share*k
		if remainder == 0 {
			if b := imbalance(left); b < best.imbalance {
				best = split{slices.Clone(nodes), nil, share, b}
			}
			continue
		}
		var open []int
		for _, i := range nodes {
			if left[i] >= chunk {
				open = append(open, i)
			}
		}
		for extra := range downFrom(open, min(remainder/chunk, len(open))) {
			copy(trial, left)
			r := remainder
			for progress := true; r > 0 && progress; {
				progress = false
				for _, i := range extra {
					if r > 0 && trial[i] >= chunk {
						trial[i] -= chunk
						r -= chunk
						progress = true
					}
				}
			}
			if r > 0 {
				continue
			}
			if b := imbalance(trial); b < best.imbalance {
				best = split{slices.Clone(nodes), slices.Clone(extra), share, b}
			}
		}
	}
	return best, best.nodes != nil
}

func (l *layout) takeSplit(free Set, n, chunk int, s split, o Options) Set {
	var taken Set
	for _, i := range s.nodes {
		taken = taken.Union(l.take(free.Intersect(l.nodes[i].cpus), s.share, o))
	}
	for progress := true; taken.Len() < n && progress; {
		progress = false
		for _, i := range s.extra {
			rest := free.Intersect(l.nodes[i].cpus).Minus(taken)
			if taken.Len() < n && rest.Len() >= chunk {
				taken = taken.Union(l.take(rest, chunk, o))
				progress = true
			}
		}
	}
	return taken
}

// imbalance compares splits of one request: the sum of squares is smallest if the counts are most even, because their total is the same.
func imbalance(counts []int) int {
	sum := 0
	for _, c := range counts {
		sum += c * c
	}
	return sum
}

// choices yields each choice of k items in the order of the items. The yielded slice is valid until the next one.
func choices(items []int, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		chosen := make([]int, 0, k)
		var next func(from int) bool
		next = func(from int) bool {
			if len(chosen) == k {
				return yield(chosen)
			}
			for i := from; i <= len(items)-(k-len(chosen)); i++ {
				chosen = append(chosen, items[i])
				if !next(i + 1) {
					return false
				}
				chosen = chosen[:len(chosen)-1]
			}
			return true
		}
		next(0)
	}
}

// downFrom yields each choice of k items, then each of k-1, and so on down to one.
func downFrom(items []int, k int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		for n := k; n > 0; n-- {
			for c := range choices(items, n) {
				if !yield(c) {
					return
				}
			}
		}
	}
}
