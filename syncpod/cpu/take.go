package cpu

import (
	"cmp"
	"slices"
)

// A taker takes CPUs from free into taken until it needs no more.
type taker struct {
	*layout
	free, taken Set
	need        int
}

// take chooses n CPUs from free. It takes whole sockets, NUMA nodes, caches and cores where the request is large enough, and keeps the
// rest together. Of places of one kind it takes those with the fewest free CPUs first, so that large places remain for large requests.
func (l *layout) take(free Set, n int, o Options) Set {
	t := &taker{layout: l, free: free, need: n}
	if t.nodesAbove() {
		t.whole(t.nodes, t.upperOrder(), 0)
		t.whole(t.sockets, t.lowerOrder(), t.average(t.sockets))
	} else {
		t.whole(t.sockets, t.upperOrder(), t.average(t.sockets))
		t.whole(t.nodes, t.lowerOrder(), 0)
	}
	if o.PreferAlignByUncoreCache {
		t.fromCaches()
	}
	if !o.DistributeAcrossCores {
		t.whole(t.cores, t.coreOrder(), t.average(t.cores))
	}
	t.single(o.DistributeAcrossCores)
	return t.taken
}

func (t *taker) add(cpus Set) {
	t.taken, t.free, t.need = t.taken.Union(cpus), t.free.Minus(cpus), t.need-cpus.Len()
}

// whole takes groups that are free as a whole, as long as one is not larger than the need. With a size, a group of another size does not
// count as a whole.
func (t *taker) whole(groups level, order []int, size int) {
	for _, i := range order {
		if n := groups[i].cpus.Len(); n <= t.need && (size == 0 || n == size) && t.free.Contains(groups[i].cpus) {
			t.add(groups[i].cpus)
		}
	}
}

// single takes single CPUs: core after core, or those of a place in ascending order, so that they are spread over its cores.
func (t *taker) single(spread bool) {
	groups, order := t.cores, []int(nil)
	if t.need == 0 {
		return
	}
	if spread {
		groups, order = t.sockets, t.socketOrder()
	} else {
		order = t.coreOrder()
	}
	for _, i := range order {
		if t.need == 0 {
			return
		}
		t.add(groups[i].cpus.Intersect(t.free).first(t.need))
	}
}

func (t *taker) upperOrder() []int { return t.order(t.upper, nil) }
func (t *taker) lowerOrder() []int { return t.order(t.lower, t.upperOrder()) }
func (t *taker) coreOrder() []int  { return t.order(t.cores, t.lowerOrder()) }
func (t *taker) cacheOrder() []int { return t.order(t.caches, t.nodeOrder()) }

func (t *taker) socketOrder() []int {
	if t.nodesAbove() {
		return t.lowerOrder()
	}
	return t.upperOrder()
}

func (t *taker) nodeOrder() []int {
	if t.nodesAbove() {
		return t.upperOrder()
	}
	return t.lowerOrder()
}

// order returns the indices of the groups that have free CPUs: in the order of the groups above them, then those with fewer free CPUs
// first, then by id.
func (t *taker) order(groups level, above []int) []int {
	if t.need == 0 {
		return nil
	}
	rank := map[int]int{}
	for r, i := range above {
		rank[i] = r
	}
	type key struct{ rank, free, index int }
	var keys []key
	for i, g := range groups {
		free := g.cpus.common(t.free)
		if free == 0 {
			continue
		}
		k := key{len(above), free, i}
		for _, parent := range g.in {
			if r, ok := rank[parent]; ok {
				k.rank = min(k.rank, r)
			}
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.free, b.free), cmp.Compare(a.index, b.index))
	})
	order := make([]int, len(keys))
	for i, k := range keys {
		order[i] = k.index
	}
	return order
}

// fromCaches takes CPUs that share uncore caches: whole caches first, and then the rest from one cache, if one has enough free cores.
func (t *taker) fromCaches() {
	perCache := t.average(t.caches)
	for _, i := range t.cacheOrder() {
		if t.need >= perCache {
			t.whole(t.caches, t.cacheOrder(), 0)
		}
		if t.need == 0 {
			return
		}
		t.fromCache(t.caches[i].cpus)
	}
}

// fromCache takes all that is needed from one cache, or nothing. It opens as few cores as it can.
func (t *taker) fromCache(cache Set) {
	threads := t.average(t.cores)
	wanted := (t.need + threads - 1) / threads
	var chosen Set
	for _, core := range t.cores {
		if free := core.cpus.Intersect(t.free).Intersect(cache); wanted > 0 && !free.IsEmpty() {
			chosen = chosen.Union(free)
			wanted--
		}
	}
	if spare := chosen.Len() - t.need; spare == 1 && t.need%2 == 1 && threads > 1 {
		chosen = chosen.first(t.need)
	}
	if chosen.Len() == t.need {
		t.add(chosen)
	}
}
