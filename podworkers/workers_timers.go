package podworkers

import (
	"container/heap"
	"time"
)

// timers holds the next due time of each pod; one timer of the Go runtime serves all pods. An idle pod is due for a
// retry or a resync, a busy pod for its work's abandonment.
//
// Updates postpone most due times before they are reached. The pod then keeps its place in the heap until its old time,
// and next inserts it again with the new one.
type timers struct {
	heap timerHeap
	// armed is the time of the timer, zero if it is stopped.
	armed time.Time
	// earlier is signalled when a pod is due before armed. Run reads it without the lock.
	earlier chan struct{}
}

// timerEntry is a pod's part in timers.
type timerEntry struct {
	// due is the due time of the pod, zero if it has none.
	due time.Time
	// filed is the pod's key in the heap, never after due.
	filed time.Time
	// index is the pod's index in the heap, plus one; zero if it is not in the heap.
	index int
}

// set replaces the due time of a pod.
func (t *timers) set(p *worker, at time.Time) {
	p.timer.due = at
	switch {
	case p.timer.index == 0:
		p.timer.filed = at
		heap.Push(&t.heap, p)
	case at.Before(p.timer.filed):
		p.timer.filed = at
		heap.Fix(&t.heap, p.timer.index-1)
	}
	if t.armed.IsZero() || at.Before(t.armed) {
		select {
		case t.earlier <- struct{}{}:
		default:
		}
	}
}

// clear removes the due time of a pod.
func (t *timers) clear(p *worker) { p.timer.due = time.Time{} }

// remove removes a pod.
func (t *timers) remove(p *worker) {
	if p.timer.index != 0 {
		heap.Remove(&t.heap, p.timer.index-1)
	}
}

// next removes and returns a pod that is due at now, nil if there is none.
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

// arm sets the timer to the first due time.
func (t *timers) arm(timer *time.Timer, now time.Time) {
	t.armed = time.Time{}
	if len(t.heap) > 0 {
		t.armed = t.heap[0].timer.filed
		timer.Reset(t.armed.Sub(now))
	}
}

// timerHeap orders pods by timerEntry.filed.
type timerHeap []*worker

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].timer.filed.Before(h[j].timer.filed) }

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer.index, h[j].timer.index = i+1, j+1
}

func (h *timerHeap) Push(x any) {
	p := x.(*worker)
	p.timer.index = len(*h) + 1
	*h = append(*h, p)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	p := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	p.timer.index = 0
	return p
}
