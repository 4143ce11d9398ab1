package serve

import (
	"sync"
	"time"
)

// maxAnswers is how many answers are kept at most; then all are forgotten.
const maxAnswers = 10000

// answers are remembered for a while.
type answers[K comparable, V any] struct {
	yes, no time.Duration

	mu    sync.Mutex
	known map[K]answer[V]
}

type answer[V any] struct {
	value V
	ok    bool
	until time.Time
}

// newAnswers remembers what is so for yes, and what is not for no.
func newAnswers[K comparable, V any](yes, no time.Duration) *answers[K, V] {
	return &answers[K, V]{yes: yes, no: no, known: map[K]answer[V]{}}
}

func (a *answers[K, V]) get(k K) (value V, ok, found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, found := a.known[k]
	if !found || !time.Now().Before(known.until) {
		delete(a.known, k)
		return value, false, false
	}
	return known.value, known.ok, true
}

func (a *answers[K, V]) put(k K, value V, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ttl := a.no
	if ok {
		ttl = a.yes
	}
	if ttl <= 0 {
		return
	}
	if len(a.known) >= maxAnswers {
		clear(a.known)
	}
	a.known[k] = answer[V]{value, ok, time.Now().Add(ttl)}
}
