package pleg

import (
	"iter"

	"github.com/podsync/podsync/runtime"
)

// owners maps sandbox and container IDs to pods. A runtime may report a removed object without its
// pod, and does so for each object when all pods are stopped together. Nil until the first such
// event.
type owners map[string]*pod

// ownerOf returns the pod that has a container or sandbox, nil if it is unknown. It must be called with mu held, and so
// must all functions below.
func (w *Watcher) ownerOf(id string) *pod {
	if w.owners == nil {
		w.owners = owners{}
		for _, p := range w.pods {
			w.owners.add(p)
		}
	}
	return w.owners[id]
}

// setLatest records a pod's newest status.
func (w *Watcher) setLatest(p *pod, status *runtime.PodStatus) {
	w.owners.remove(p)
	p.latest = status
	w.owners.add(p)
}

func (o owners) add(p *pod) {
	if o == nil {
		return
	}
	for id := range ids(p.latest) {
		o[id] = p
	}
}

func (o owners) remove(p *pod) {
	for id := range ids(p.latest) {
		delete(o, id)
	}
}

// ids returns all sandbox and container IDs in a status.
func ids(s *runtime.PodStatus) iter.Seq[string] {
	return func(yield func(string) bool) {
		if s == nil {
			return
		}
		for i := range s.Containers {
			if !yield(s.Containers[i].ID.ID) {
				return
			}
		}
		for i := range s.Sandboxes {
			if !yield(s.Sandboxes[i].ID) {
				return
			}
		}
	}
}
