package podworkers

import (
	"container/heap"
	"time"
)

// timers knows when something is due for which pod: one timer of the runtime
// serves them all. A pod is due for one thing at a time: work that failed or was
// last done long ago if it is idle, abandoning its work if it is busy.
//
// Most times are put off before they come, when the pod has news. So a pod's
// place in the heap is left alone then, and looked at again when it comes up.
type timers struct {
	heap timerHeap
	// armed is when the runtime's timer goes off, zero if it does not.
	armed time.Time
	// earlier is signalled when something is due before that. Run reads it without the lock.
	earlier chan struct{}
}

// timerEntry is a pod's part in timers.
type timerEntry struct {
	// due is when something is due for the pod, zero if nothing is.
	due time.Time
	// filed is the time under which the pod is in the heap, never after due.
	filed time.Time
	// place is the pod's index in the heap, plus one; zero if it is not there.
	place int
}

// set makes a pod due at a time, and not at any other.
func (t *timers) set(p *worker, at time.Time) {
	p.timer.due = at
	switch {
	case p.timer.place == 0:
		p.timer.filed = at
		heap.Push(&t.heap, p)
	case at.Before(p.timer.filed):
		p.timer.filed = at
		heap.Fix(&t.heap, p.timer.place-1)
	}
	if t.armed.IsZero() || at.Before(t.armed) {
		select {
		case t.earlier <- struct{}{}:
		default:
		}
	}
}

// clear makes a pod due for nothing.
func (t *timers) clear(p *worker) { p.timer.due = time.Time{} }

// remove takes a pod out.
func (t *timers) remove(p *worker) {
	if p.timer.place != 0 {
		heap.Remove(&t.heap, p.timer.place-1)
	}
}

// next takes out a pod for which something is due at now; nil if there is none.
func (t *timers) next(now time.Time) *worker {
	for len(t.heap) > 0 && !t.heap[0].timer.filed.After(now) {
		p := heap.Pop(&t.heap).(*worker)
		due := p.timer.due
		switch {
		case due.IsZero():
		case due.After(now):
			p.timer.filed = due
			heap.Push(&t.heap, p)
		default:
			return p
		}
	}
	return nil
}

// arm sets the one timer there is for what is due first.
func (t *timers) arm(timer *time.Timer, now time.Time) {
	t.armed = time.Time{}
	if len(t.heap) > 0 {
		t.armed = t.heap[0].timer.filed
		timer.Reset(t.armed.Sub(now))
	}
}

// timerHeap orders pods by when they are filed.
type timerHeap []*worker

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].timer.filed.Before(h[j].timer.filed) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer.place, h[j].timer.place = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	p := x.(*worker)
	p.timer.place = len(*h) + 1
	*h = append(*h, p)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.timer.place = 0
	return p
}
