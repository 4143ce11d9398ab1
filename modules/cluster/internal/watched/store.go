package watched

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/podsync/podsync/modules/cluster/internal/cached"
)

// store implements the cache.Store that the Reflector writes to.
type store[T Object] Watch[T]

var _ cache.ReflectorStore = (*store[Object])(nil)

func (s *store[T]) watch() *Watch[T] { return (*Watch[T])(s) }

// Transformer makes the Reflector drop managed fields as soon as it has read an object.
func (s *store[T]) Transformer() cache.TransformFunc { return cached.WithoutManagedFields }

// prepare changes an object before other goroutines read it.
func (s *store[T]) prepare(o T) {
	o.SetManagedFields(nil)
	s.transform(o)
}

// Add stores an object.
func (s *store[T]) Add(object any) error { return s.Update(object) }

// Update stores an object.
func (s *store[T]) Update(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("watched: a %T is no %T", object, s.kind)
	}
	s.prepare(o)
	s.callMu.Lock()
	defer s.callMu.Unlock()
	s.watch().put(o)
	return nil
}

// Delete drops an object. Listeners receive its last stored version.
func (s *store[T]) Delete(object any) error {
	o, ok := object.(T)
	if !ok {
		return fmt.Errorf("watched: a %T is no %T", object, s.kind)
	}
	s.callMu.Lock()
	defer s.callMu.Unlock()
	s.watch().remove(keyOf(o))
	return nil
}

// Replace stores a list, and drops every object that is not in it.
func (s *store[T]) Replace(list []any, _ string) error {
	s.callMu.Lock()
	defer s.callMu.Unlock()
	there := map[types.NamespacedName]bool{}
	for _, object := range list {
		o, ok := object.(T)
		if !ok {
			return fmt.Errorf("watched: a %T is no %T", object, s.kind)
		}
		s.prepare(o)
		there[keyOf(o)] = true
		s.watch().put(o)
	}
	for _, k := range s.absent(there) {
		s.watch().remove(k)
	}
	select {
	case <-s.listed:
	default:
		close(s.listed)
	}
	return nil
}

// absent returns the objects that are not in a list, sorted by name.
func (s *store[T]) absent(there map[types.NamespacedName]bool) (gone []types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.objects {
		if !there[k] {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, compare)
	return gone
}

// Resync does nothing: there is no resync period.
func (s *store[T]) Resync() error { return nil }
