package serve

import (
	"container/list"
	"sync"
	"time"
)

// maxCached limits the cached results of each kind. The oldest is dropped first.
const maxCached = 4096

// resultCache caches results. Positive and negative ones are separate, so that a flood of rejections
// displaces no acceptance.
type resultCache[K comparable, V any] struct {
	mu              sync.Mutex
	allowed, denied ttlCache[K, V]
}

// newResultCache returns a cache that keeps acceptances for the first duration, and rejections for the second.
func newResultCache[K comparable, V any](allowed, denied time.Duration) *resultCache[K, V] {
	return &resultCache[K, V]{allowed: newTTLCache[K, V](allowed), denied: newTTLCache[K, V](denied)}
}

func (a *resultCache[K, V]) get(k K) (value V, ok, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if value, found = a.allowed.get(k, now); found {
		return value, true, true
	}
	value, found = a.denied.get(k, now)
	return value, false, found
}

func (a *resultCache[K, V]) put(k K, value V, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	to, from := &a.allowed, &a.denied
	if !ok {
		to, from = from, to
	}
	from.remove(k)
	to.put(k, value, time.Now())
}

// A ttlCache keeps values for ttl, at most maxCached of them.
type ttlCache[K comparable, V any] struct {
	ttl   time.Duration
	byKey map[K]*list.Element
	order *list.List // of cacheEntry, the oldest first
}

type cacheEntry[K comparable, V any] struct {
	key   K
	value V
	until time.Time
}

func newTTLCache[K comparable, V any](ttl time.Duration) ttlCache[K, V] {
	return ttlCache[K, V]{ttl: ttl, byKey: map[K]*list.Element{}, order: list.New()}
}

func (s *ttlCache[K, V]) get(k K, now time.Time) (value V, found bool) {
	e, found := s.byKey[k]
	if !found {
		return value, false
	}
	b := e.Value.(cacheEntry[K, V])
	if !now.Before(b.until) {
		s.remove(k)
		return value, false
	}
	return b.value, true
}

func (s *ttlCache[K, V]) put(k K, value V, now time.Time) {
	s.remove(k)
	if s.ttl <= 0 {
		return
	}
	if oldest := s.order.Front(); s.order.Len() >= maxCached {
		s.remove(oldest.Value.(cacheEntry[K, V]).key)
	}
	s.byKey[k] = s.order.PushBack(cacheEntry[K, V]{k, value, now.Add(s.ttl)})
}

func (s *ttlCache[K, V]) remove(k K) {
	if e, found := s.byKey[k]; found {
		s.order.Remove(e)
		delete(s.byKey, k)
	}
}
