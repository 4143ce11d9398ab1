package timeline

import (
	"slices"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
)

// A record is a pod's history.
type record struct {
	pod podHistory
	// entries are in the order in which they were recorded.
	entries []*entry
	// open are the entries in progress, by kind and name.
	open map[string]*entry
	// runs are the newest recorded instances, by container. Statuses repeat them.
	runs map[string]*instance
	// phase is the pod's phase on the node, ending why it was stopped.
	phase  podworkers.Phase
	ending string
	// plan is the last plan.
	plan actions.Plan
}

// maxText bounds names and reasons.
const maxText = 200

// with calls do with a pod's record. It creates the record if there is none.
func (t *Timeline) with(uid types.UID, pod *v1.Pod, do func(*record)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.records[uid]
	if r == nil {
		r = &record{pod: podHistory{UID: uid}, open: map[string]*entry{}, runs: map[string]*instance{}}
		t.records[uid] = r
	}
	if pod != nil {
		r.pod.Namespace, r.pod.Name = pod.Namespace, pod.Name
	}
	before := len(r.entries)
	do(r)
	t.entries += len(r.entries) - before
	t.bound(r)
}

// took adds an entry that has just ended.
func (r *record) took(e entry, took time.Duration) *entry {
	e.End = time.Now()
	e.Begin = e.End.Add(-took)
	return r.add(e)
}

// add adds an entry. A failed entry that repeats the previous one, and begins after it, only
// increments its count.
func (r *record) add(e entry) *entry {
	e.Name, e.Reason, e.Count = cut(e.Name), cut(e.Reason), 1
	for i := len(r.entries) - 1; i >= 0 && e.Failed && !e.Kind.state(); i-- {
		last := r.entries[i]
		if last.Container != e.Container || last.Kind.state() || last.End.IsZero() {
			continue
		}
		if last.Kind == e.Kind && last.Name == e.Name && last.Reason == e.Reason && last.Failed {
			last.Count++
			last.End = e.End
			return last
		}
		break
	}
	r.entries = append(r.entries, &e)
	return &e
}

// cut truncates a text, and omits a character that it would split.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// state begins a state of a pod, or of one of its containers, at e.Begin, or now. The previous state ends. If it has
// the same name, it continues.
func (r *record) state(e entry) *entry {
	key := stateOf(e.Container)
	if last := r.open[key]; last != nil && last.Kind == e.Kind && last.Name == cut(e.Name) && e.Kind != kindRun {
		return last
	}
	if e.Begin.IsZero() {
		e.Begin = time.Now()
	}
	r.endState(e.Container, e.Begin)
	r.open[key] = r.add(e)
	return r.open[key]
}

// endState ends the state of a pod or container.
func (r *record) endState(container string, at time.Time) {
	key := stateOf(container)
	if last := r.open[key]; last != nil {
		last.End = at
		if at.Before(last.Begin) { // clocks differ
			last.End = last.Begin
		}
		delete(r.open, key)
		if last.Kind == kindWait && !last.Failed && last.End.Equal(last.Begin) { // the next status has overtaken this one
			r.entries = slices.DeleteFunc(r.entries, func(e *entry) bool { return e == last })
		}
	}
}

func stateOf(container string) string { return "state " + container }

// failing begins or ends a failure's entry.
func (r *record) failing(key string, e entry) {
	now, last := time.Now(), r.open[key]
	e.Name, e.Reason = cut(e.Name), cut(e.Reason)
	if last != nil && e.Failed && last.Reason == e.Reason {
		last.Count++
		return
	}
	if last != nil {
		last.End = now
		delete(r.open, key)
	}
	if e.Failed {
		e.Begin, e.Count = now, 1
		r.entries = append(r.entries, &e)
		r.open[key] = r.entries[len(r.entries)-1]
	}
}

// endAll ends all entries in progress.
func (r *record) endAll() {
	now := time.Now()
	for key, e := range r.open {
		if e.End.IsZero() {
			e.End = now
		}
		delete(r.open, key)
	}
	clear(r.runs)
}

func (r *record) snapshot() podHistory {
	p := r.pod
	sorted := slices.Clone(r.entries)
	slices.SortStableFunc(sorted, func(a, b *entry) int { return a.Begin.Compare(b.Begin) })
	for _, e := range sorted {
		p.Entries = append(p.Entries, *e)
	}
	return p
}
