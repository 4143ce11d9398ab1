package timeline

import "slices"

// bound enforces the limits: first it drops entries of the newest entry's pod, then finished pods, and then entries of
// the pods with the most. It requires mu to be held.
func (t *Timeline) bound(r *record) {
	for len(r.entries) > t.maxPodEntries {
		t.drop(r, len(r.entries)-t.maxPodEntries)
	}
	for t.entries > t.maxEntries {
		if len(t.over) > 0 {
			t.forget()
			continue
		}
		most := r
		for _, other := range t.records {
			if len(other.entries) > len(most.entries) {
				most = other
			}
		}
		t.drop(most, max(1, len(most.entries)/4))
	}
}

// drop removes the n oldest entries in a pod, entries in progress last.
func (t *Timeline) drop(r *record, n int) {
	n = min(n, len(r.entries))
	t.entries -= n
	r.pod.Dropped += n
	for _, ended := range []bool{true, false} {
		r.entries = slices.DeleteFunc(r.entries, func(e *entry) bool {
			gone := n > 0 && (!ended || !e.End.IsZero())
			if gone {
				n--
			}
			return gone
		})
	}
}

// forget removes the pod that has been over for the longest time.
func (t *Timeline) forget() {
	uid := t.over[0]
	t.over = t.over[1:]
	t.entries -= len(t.records[uid].entries)
	delete(t.records, uid)
}
