package lastknown

import (
	"cmp"
	"context"
	"maps"
	"reflect"
	"sync"
	"time"

	"github.com/podsync/podsync/syncpod/container/env"
)

// While a source was unavailable less than quiet ago, a start waits only for briefly for each of its objects: a pod may name
// many, and a source that is back answers from a cache.
const (
	quiet   = 10 * time.Second
	briefly = 50 * time.Millisecond
)

// Answers are a source's last answers, by request. That an object does not exist is an answer, too. The zero Answers knows
// none. Its methods may be called concurrently.
type Answers[K comparable, T any] struct {
	// Changed, if set, is called when an answer has changed.
	Changed func()
	// Size, if set, returns an answer's size. Answers beyond Limit in all are not remembered.
	Size  func(T) int
	Limit int
	// Silence, if set, is shared by sources that are probably unavailable together.
	Silence *Silence

	mu    sync.Mutex
	byKey map[K]answer[T]
	size  int
	own   Silence
}

// Silence is when a source was found unavailable. The zero Silence is of a source that answers. Its methods may be called
// concurrently.
type Silence struct {
	mu    sync.Mutex
	since time.Time // zero if the source has answered since then
}

func (s *Silence) set(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = at
}

// patience is how long to wait for the next answer.
func (s *Silence) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := time.Since(s.since); !s.since.IsZero() && 0 <= since && since < quiet {
		return briefly
	}
	return Patience
}

// answer is an answer. Its error wraps env.ErrNotFound, or is nil.
type answer[T any] struct {
	value T
	err   error
	size  int
}

// Load replaces the answers.
func (a *Answers[K, T]) Load(all map[K]T, missing map[K]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byKey = map[K]answer[T]{}
	for key, value := range all {
		a.byKey[key] = answer[T]{value: value}
	}
	for key := range missing {
		a.byKey[key] = answer[T]{err: env.ErrNotFound}
	}
}

// Ask requests an object, and remembers the answer. If the source is unavailable, or does not answer within [Patience], it
// returns the last answer.
func (a *Answers[K, T]) Ask(ctx context.Context, key K, ask func(context.Context) (T, error)) (T, error) {
	value, err, _ := a.Consult(ctx, key, ask)
	return value, err
}

// Consult is like Ask. If it returns the last answer, unavailable is why there is no newer one.
func (a *Answers[K, T]) Consult(ctx context.Context, key K, ask func(context.Context) (T, error)) (value T, err, unavailable error) {
	last, known, patience := a.last(key)
	asking := ctx
	if known {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	value, err = ask(asking)
	switch {
	case err == nil || env.NotFound(err):
		a.store(key, answer[T]{value: value, err: err})
	case known && Suffices(ctx, Answer, err):
		a.silence().set(time.Now())
		return last.value, last.err, err
	}
	return value, err, nil
}

// last returns the last answer, and how long to wait for the next one.
func (a *Answers[K, T]) last(key K) (last answer[T], known bool, patience time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known = a.byKey[key]
	return last, known, a.silence().patience()
}

func (a *Answers[K, T]) silence() *Silence { return cmp.Or(a.Silence, &a.own) }

func (a *Answers[K, T]) store(key K, next answer[T]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silence().set(time.Time{})
	if last, known := a.byKey[key]; known && (last.err != nil) == (next.err != nil) && (next.err != nil || reflect.DeepEqual(last.value, next.value)) {
		return
	}
	if a.byKey == nil {
		a.byKey = map[K]answer[T]{}
	}
	if a.Size != nil && next.err == nil {
		next.size = a.Size(next.value)
	}
	a.size += next.size - a.byKey[key].size
	a.byKey[key] = next
	if a.Size != nil && a.size > a.Limit {
		a.size -= next.size
		delete(a.byKey, key)
	}
	if a.Changed != nil {
		a.Changed()
	}
}

// Keep drops all answers but those that keep selects.
func (a *Answers[K, T]) Keep(keep func(K) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.byKey, func(key K, _ answer[T]) bool { return !keep(key) })
}

// Known returns the answers: the objects, and the keys of those that do not exist. Both are new maps.
func (a *Answers[K, T]) Known() (all map[K]T, missing map[K]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, missing = map[K]T{}, map[K]bool{}
	for key, answer := range a.byKey {
		if answer.err == nil {
			all[key] = answer.value
		} else {
			missing[key] = true
		}
	}
	return all, missing
}
