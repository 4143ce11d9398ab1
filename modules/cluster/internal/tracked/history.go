package tracked

import (
	"slices"
	"strconv"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// keptEvents is the number of changes to each kind that are kept for later watches.
const keptEvents = 2048

// A change is one write. Its objects must not be modified.
type change struct {
	version  int64
	old, new object // old is nil for a created object, new for a deleted one
}

// history has the last changes to the objects of one kind, and the watches that are open.
type history struct {
	changes []change
	// dropped is the version of the newest change that is no longer kept.
	dropped int64
	// watches are the open watches by their selector's field, so that a change is compared only with watches that may
	// select it.
	watches map[string]map[*watcher]bool
}

// historyOf is called with mu held.
func (s *Store) historyOf(gvr schema.GroupVersionResource) *history {
	h := s.history[gvr]
	if h == nil {
		h = &history{watches: map[string]map[*watcher]bool{}}
		s.history[gvr] = h
	}
	return h
}

func (h *history) add(version int64, old, new object) {
	c := change{version, old, new}
	if h.changes = append(h.changes, c); len(h.changes) >= 2*keptEvents {
		h.dropped = h.changes[keptEvents-1].version
		h.changes = slices.Clone(h.changes[keptEvents:])
	}
	notified := map[string]bool{}
	for _, o := range []object{old, new} {
		if o == nil {
			continue
		}
		for _, key := range indexKeys(o) {
			if notified[key] {
				continue
			}
			notified[key] = true
			for w := range h.watches[key] {
				w.notify(c)
			}
		}
	}
}

// indexKeys returns the keys of the watches that may select an object.
func indexKeys(o object) []string {
	keys := []string{"", "metadata.name=" + o.GetName()}
	if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName != "" {
		keys = append(keys, "spec.nodeName="+pod.Spec.NodeName)
	}
	return keys
}

// A selection says which objects of a kind a list or watch selects.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

// key returns the key of history.watches for a watch of this selection.
func (s selection) key() string {
	for _, field := range []string{"metadata.name", "spec.nodeName"} {
		if value, ok := s.fields.RequiresExactMatch(field); ok && value != "" {
			return field + "=" + value
		}
	}
	return ""
}

func (s selection) matches(o object) bool {
	return o != nil && (s.namespace == "" || s.namespace == o.GetNamespace()) &&
		s.labels.Matches(labels.Set(o.GetLabels())) && (s.fields.Empty() || s.fields.Matches(fieldsOf(o)))
}

// fieldsOf returns the fields by which objects can be selected.
func fieldsOf(o object) fields.Set {
	set := fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()}
	switch o := o.(type) {
	case *v1.Pod:
		set["spec.nodeName"], set["spec.schedulerName"], set["spec.serviceAccountName"] = o.Spec.NodeName, o.Spec.SchedulerName, o.Spec.ServiceAccountName
		set["spec.restartPolicy"], set["status.phase"], set["status.podIP"] = string(o.Spec.RestartPolicy), string(o.Status.Phase), o.Status.PodIP
	case *v1.Node:
		set["spec.unschedulable"] = strconv.FormatBool(o.Spec.Unschedulable)
	case *v1.Secret:
		set["type"] = string(o.Type)
	case *v1.Event:
		set["involvedObject.kind"], set["involvedObject.namespace"], set["involvedObject.name"] = o.InvolvedObject.Kind, o.InvolvedObject.Namespace, o.InvolvedObject.Name
		set["involvedObject.uid"], set["reason"], set["type"] = string(o.InvolvedObject.UID), o.Reason, o.Type
	}
	return set
}

// An event is a watch event.
type event struct {
	Type   watch.EventType `json:"type"`
	Object any             `json:"object"`
}

// eventOf returns the event of a change for a watch of this selection, false if the watch gets none.
func (s selection) eventOf(c change) (event, bool) {
	switch was, is := s.matches(c.old), s.matches(c.new); {
	case is && was:
		return event{watch.Modified, c.new}, true
	case is:
		return event{watch.Added, c.new}, true
	case was:
		last := c.old
		if c.new != nil { // no longer selected: the watch gets the last selected version, with the new resource version
			last = c.old.DeepCopyObject().(object)
			last.SetResourceVersion(c.new.GetResourceVersion())
		}
		return event{watch.Deleted, last}, true
	}
	return event{}, false
}

// A watcher is one open watch. Its queue of events is unbounded.
type watcher struct {
	selection
	mu     sync.Mutex
	events []event
	// wake has a value while events are queued.
	wake chan struct{}
}

func (w *watcher) notify(c change) {
	if e, ok := w.eventOf(c); ok {
		w.add(e)
	}
}

func (w *watcher) add(e event) {
	w.mu.Lock()
	w.events = append(w.events, e)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

func (w *watcher) take() []event {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	return events
}

// bookmark returns the bookmark that ends a watch's initial events.
func bookmark(version int64, gvk schema.GroupVersionKind) event {
	return event{watch.Bookmark, &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind},
		ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: strconv.FormatInt(version, 10), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		},
	}}
}

// Compact forgets the changes so far, as the compaction of etcd does. Open watches continue. A watch from an older version
// fails with 410, and its client lists the objects again.
func (s *Store) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.history {
		if n := len(h.changes); n > 0 {
			h.dropped, h.changes = h.changes[n-1].version, nil
		}
	}
}

// Watches returns the number of open watches.
func (s *Store) Watches() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.history {
		for _, open := range h.watches {
			n += len(open)
		}
	}
	return n
}
