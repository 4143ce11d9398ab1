package serve

import (
	"container/list"
	"sync"
	"time"
)

// maxAnswers is the maximum number of cached results of each kind. The oldest is dropped first.
const maxAnswers = 4096

// answers caches results. Positive and negative ones are separate, so that a flood of rejections
// displaces no acceptance.
type answers[K comparable, V any] struct {
	mu      sync.Mutex
	yes, no shelf[K, V]
}

// newAnswers keeps acceptances for yes, and refusals for no.
func newAnswers[K comparable, V any](yes, no time.Duration) *answers[K, V] {
	return &answers[K, V]{yes: newShelf[K, V](yes), no: newShelf[K, V](no)}
}

func (a *answers[K, V]) get(k K) (value V, ok, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if value, found = a.yes.get(k, now); found {
		return value, true, true
	}
	value, found = a.no.get(k, now)
	return value, false, found
}

func (a *answers[K, V]) put(k K, value V, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	to, from := &a.yes, &a.no
	if !ok {
		to, from = from, to
	}
	from.remove(k)
	to.put(k, value, time.Now())
}

// A shelf keeps values for ttl, at most maxAnswers of them.
type shelf[K comparable, V any] struct {
	ttl   time.Duration
	byKey map[K]*list.Element
	order *list.List // of book, the oldest first
}

type book[K comparable, V any] struct {
	key   K
	value V
	until time.Time
}

func newShelf[K comparable, V any](ttl time.Duration) shelf[K, V] {
	return shelf[K, V]{ttl: ttl, byKey: map[K]*list.Element{}, order: list.New()}
}

func (s *shelf[K, V]) get(k K, now time.Time) (value V, found bool) {
	e, found := s.byKey[k]
	if !found {
		return value, false
	}
	b := e.Value.(book[K, V])
	if !now.Before(b.until) {
		s.remove(k)
		return value, false
	}
	return b.value, true
}

func (s *shelf[K, V]) put(k K, value V, now time.Time) {
	s.remove(k)
	if s.ttl <= 0 {
		return
	}
	if oldest := s.order.Front(); s.order.Len() >= maxAnswers {
		s.remove(oldest.Value.(book[K, V]).key)
	}
	s.byKey[k] = s.order.PushBack(book[K, V]{k, value, now.Add(s.ttl)})
}

func (s *shelf[K, V]) remove(k K) {
	if e, found := s.byKey[k]; found {
		s.order.Remove(e)
		delete(s.byKey, k)
	}
}
