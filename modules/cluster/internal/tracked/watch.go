package tracked

import (
	"cmp"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
)

// selectionOf returns the selection of the options of a list or watch.
func selectionOf(r request, o metav1.ListOptions) (selection, error) {
	byLabel, err := labels.Parse(o.LabelSelector)
	if err != nil {
		return selection{}, apierrors.NewBadRequest("labelSelector: " + err.Error())
	}
	byField, err := fields.ParseSelector(o.FieldSelector)
	if err != nil {
		return selection{}, apierrors.NewBadRequest("fieldSelector: " + err.Error())
	}
	if r.name != "" {
		byField = fields.AndSelectors(byField, fields.OneTermEqualSelector("metadata.name", r.name))
	}
	return selection{r.namespace, byLabel, byField}, nil
}

// list returns a selection's objects sorted by name, and the version at which they were read.
func (s *Store) list(r request, o metav1.ListOptions) ([]object, int64, error) {
	want, err := selectionOf(r, o)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, err := s.selected(r, want)
	return found, s.version, err
}

// selected is called with mu held.
func (s *Store) selected(r request, want selection) ([]object, error) {
	gvk, err := s.kindOf(r)
	if err != nil {
		return nil, err
	}
	list, err := s.tracker.List(r.GroupVersionResource, gvk, r.namespace)
	if err != nil {
		return nil, err
	}
	all, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	var found []object
	for _, o := range all {
		if o := o.(object); want.matches(o) {
			s.setKind(r, o)
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found, nil
}

// watch starts a watch, which gets every change after the resource version in the options. The caller must call end.
func (s *Store) watch(r request, o metav1.ListOptions) (w *watcher, end func(), err error) {
	want, err := selectionOf(r, o)
	if err != nil {
		return nil, nil, err
	}
	gvk, err := s.kindOf(r)
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.historyOf(r.GroupVersionResource)
	w = &watcher{selection: want, wake: make(chan struct{}, 1)}
	if initial := o.SendInitialEvents; initial != nil && *initial || o.ResourceVersion == "" || o.ResourceVersion == "0" {
		there, err := s.selected(r, want)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range there {
			w.add(event{watch.Added, o})
		}
		if initial != nil && *initial {
			w.add(bookmark(s.version, gvk))
		}
	} else if err := w.replay(h, o.ResourceVersion); err != nil {
		return nil, nil, err
	}
	key := want.key()
	if h.watches[key] == nil {
		h.watches[key] = map[*watcher]bool{}
	}
	h.watches[key][w] = true
	return w, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(h.watches[key], w); len(h.watches[key]) == 0 {
			delete(h.watches, key)
		}
	}, nil
}

// replay sends the changes since a version to a watch.
func (w *watcher) replay(h *history, version string) error {
	since, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return apierrors.NewBadRequest("resourceVersion: " + err.Error())
	}
	if since < h.dropped {
		return apierrors.NewResourceExpired("too old resource version: " + version)
	}
	first, _ := slices.BinarySearchFunc(h.changes, since+1, func(c change, v int64) int { return cmp.Compare(c.version, v) })
	for _, c := range h.changes[first:] {
		w.notify(c)
	}
	return nil
}
