// Package watched lets the parts of a process share one watch of the objects of a kind: each part listens for a group of
// them, such as one node's pods.
package watched

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// An Object is an API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// A Watch holds the newest objects of a kind from the API server. Its methods may be called concurrently.
//
// It is a store of client-go's Reflector, and not an informer: an informer has a queue, two goroutines and a buffer for
// each listener, and passes each event to all of them.
type Watch[T Object] struct {
	lister    cache.ListerWatcher
	kind      T
	group     func(T) string
	transform func(T)
	// listed is closed once all objects have been listed, and their listeners called.
	listed chan struct{}

	// callMu is held while listeners are called, so that their calls follow the order of events and never overlap. It also
	// guards held, and listener fields.
	callMu sync.Mutex
	// mu guards the maps. It is not held while a listener is called, which may read the objects.
	mu        sync.Mutex
	objects   map[types.NamespacedName]T
	groups    map[string]map[types.NamespacedName]T
	listeners map[string][]*listener[T]
	// all are the listeners for the objects of all groups.
	all []*listener[T]
	// held are the groups whose listeners get no calls.
	held map[string]bool
}

type listener[T Object] struct {
	changed func(o T, gone bool)
	// known are the objects that a held group's listener has observed. Listeners share the map and do not modify it.
	known map[types.NamespacedName]T
}

// New returns a Watch that makes no request before Run. The group of an object must not change. transform is called for
// each object before it is stored. It may modify the object, except for its name and its group. If transform is nil,
// objects are stored unchanged.
func New[T Object](lister cache.ListerWatcher, kind T, group func(T) string, transform func(T)) *Watch[T] {
	if transform == nil {
		transform = func(T) {}
	}
	return &Watch[T]{
		lister: lister, kind: kind, group: group, transform: transform, listed: make(chan struct{}), objects: map[types.NamespacedName]T{},
		groups: map[string]map[types.NamespacedName]T{}, listeners: map[string][]*listener[T]{}, held: map[string]bool{},
	}
}

// Run watches until ctx ends.
func (w *Watch[T]) Run(ctx context.Context) {
	cache.NewReflectorWithOptions(w.lister, w.kind, (*store[T])(w), cache.ReflectorOptions{}).RunWithContext(ctx)
}

// Listed returns a channel that is closed once all objects are known.
func (w *Watch[T]) Listed() <-chan struct{} { return w.listed }

// Get returns an object. The caller must not modify it.
func (w *Watch[T]) Get(namespace, name string) (T, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, ok := w.objects[types.NamespacedName{Namespace: namespace, Name: name}]
	return o, ok
}

// List returns a group's objects sorted by name. The caller must not modify them.
func (w *Watch[T]) List(group string) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []T
	for _, k := range slices.SortedFunc(maps.Keys(w.groups[group]), compare) {
		all = append(all, w.groups[group][k])
	}
	return all
}

func compare(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Listen calls changed for each present object of a group before it returns, and then for each object that is added,
// changed or, with gone set, deleted. If an object replaces another one of the same name, changed is first called with
// gone set for the old one. Calls never overlap. changed must not block, and may call Get, List and Listed. After
// stop has returned, there are no more calls.
func (w *Watch[T]) Listen(group string, changed func(o T, gone bool)) (stop func()) {
	w.callMu.Lock()
	defer w.callMu.Unlock()
	l := &listener[T]{changed: changed}
	if !w.held[group] { // otherwise release calls changed for all present objects
		for _, o := range w.List(group) {
			changed(o, false)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.listeners[group] = append(slices.Clip(w.listeners[group]), l)
	return func() {
		w.callMu.Lock()
		defer w.callMu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		left := slices.DeleteFunc(slices.Clone(w.listeners[group]), func(o *listener[T]) bool { return o == l })
		if w.listeners[group] = left; len(left) == 0 {
			delete(w.listeners, group)
		}
	}
}

// ListenAll calls changed for each object of any group that is added, changed or, with gone set, deleted, until the Watch
// ends, even while its group is held. The rules for changed are those of Listen.
func (w *Watch[T]) ListenAll(changed func(o T, gone bool)) {
	w.callMu.Lock()
	defer w.callMu.Unlock()
	w.all = append(w.all, &listener[T]{changed: changed})
}

// Announce calls the listeners of ListenAll for each present object of a group, even for those that they know.
func (w *Watch[T]) Announce(group string) {
	w.callMu.Lock()
	defer w.callMu.Unlock()
	for _, o := range w.List(group) {
		callAll(w.all, o, false)
	}
}

// Hold stops a group's listener calls until release is called, as if their connection was lost. release calls each
// for the objects that differ from those that it has observed. Get and List always return the newest objects. A group must
// not be held twice at a time.
func (w *Watch[T]) Hold(group string) (release func()) {
	w.callMu.Lock()
	defer w.callMu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[group] = true
	known := maps.Clone(w.groups[group])
	for _, l := range w.listeners[group] {
		l.known = known
	}
	return func() { w.release(group) }
}

func (w *Watch[T]) release(group string) {
	w.callMu.Lock()
	defer w.callMu.Unlock()
	delete(w.held, group)
	w.mu.Lock()
	present, listeners := maps.Clone(w.groups[group]), w.listeners[group]
	w.mu.Unlock()
	for _, l := range listeners {
		l.catchUp(present)
	}
}

// catchUp calls the listener for the objects that differ from those that it has observed.
func (l *listener[T]) catchUp(present map[types.NamespacedName]T) {
	known := l.known
	l.known = nil
	for _, k := range slices.SortedFunc(maps.Keys(known), compare) {
		if now, there := present[k]; !there || now.GetUID() != known[k].GetUID() {
			l.changed(known[k], true)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(present), compare) {
		if was, there := known[k]; !there || was.GetUID() != present[k].GetUID() || was.GetResourceVersion() != present[k].GetResourceVersion() {
			l.changed(present[k], false)
		}
	}
}

// put stores an object and calls its listeners. The caller holds callMu.
func (w *Watch[T]) put(o T) {
	k, group := keyOf(o), w.group(o)
	w.mu.Lock()
	old, known := w.objects[k]
	w.mu.Unlock()
	if known && (old.GetUID() != o.GetUID() || w.group(old) != group) {
		w.remove(k)
	}
	w.mu.Lock()
	w.objects[k] = o
	if w.groups[group] == nil {
		w.groups[group] = map[types.NamespacedName]T{}
	}
	w.groups[group][k] = o
	w.mu.Unlock()
	w.call(group, o, false)
}

// remove drops an object and calls its listeners. The caller holds callMu.
func (w *Watch[T]) remove(k types.NamespacedName) {
	w.mu.Lock()
	o, known := w.objects[k]
	if !known {
		w.mu.Unlock()
		return
	}
	group := w.group(o)
	delete(w.objects, k)
	if delete(w.groups[group], k); len(w.groups[group]) == 0 {
		delete(w.groups, group)
	}
	w.mu.Unlock()
	w.call(group, o, true)
}

func (w *Watch[T]) call(group string, o T, gone bool) {
	callAll(w.all, o, gone)
	if w.held[group] {
		return
	}
	w.mu.Lock()
	listeners := w.listeners[group]
	w.mu.Unlock()
	callAll(listeners, o, gone)
}

func callAll[T Object](listeners []*listener[T], o T, gone bool) {
	for _, l := range listeners {
		l.changed(o, gone)
	}
}

func keyOf[T Object](o T) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}
