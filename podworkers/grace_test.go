package podworkers

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// W3: the grace period only becomes shorter, and the deadline only earlier, with immediate effect.
func TestW3_GraceOnlyShrinks(t *testing.T) {
	h := newHarness(t)
	h.update(Update{Type: Create, Pod: pod("a")})
	h.do("a", SyncPod)
	h.update(kill(pod("a"), 0, ptr(int64(120))))
	w := h.next("a", SyncTerminatingPod)
	if want := now.Add(120 * time.Second); !w.Deadline.Equal(want) {
		t.Errorf("deadline %v, want %v", w.Deadline, want)
	}
	h.now = now.Add(5 * time.Second)
	if e := h.update(kill(pod("a"), 0, ptr(int64(10)))); !e.Interrupt {
		t.Errorf("shortening: %+v, want an interrupt", e)
	}
	if e := h.update(kill(pod("a"), 0, ptr(int64(300)))); e.Interrupt {
		t.Errorf("lengthening: %+v, want no interrupt", e)
	}
	h.set.Done(w, Failed)
	w = h.next("a", SyncTerminatingPod)
	if want := now.Add(15 * time.Second); *w.GracePeriodSeconds != 10 || !w.Deadline.Equal(want) {
		t.Errorf("grace %ds until %v, want 10s until %v", *w.GracePeriodSeconds, w.Deadline, want)
	}
	h.now = now.Add(14 * time.Second)
	h.update(kill(pod("a"), 0, nil))
	h.set.Done(w, Failed)
	if w = h.next("a", SyncTerminatingPod); !w.Deadline.Equal(now.Add(15 * time.Second)) {
		t.Errorf("asking again moved the deadline to %v", w.Deadline)
	}
}

func TestEffectiveGrace(t *testing.T) {
	spec := func(deletion, own *int64) *v1.Pod {
		p := pod("a")
		p.DeletionGracePeriodSeconds, p.Spec.TerminationGracePeriodSeconds = deletion, own
		return p
	}
	for name, c := range map[string]struct {
		before int64
		pod    *v1.Pod
		asked  *int64
		want   int64
	}{
		"the spec's":                      {0, spec(nil, ptr(int64(30))), nil, 30},
		"no grace period is set":          {0, spec(nil, nil), nil, 1},
		"the source's":                    {0, spec(ptr(int64(5)), ptr(int64(30))), nil, 5},
		"asked for less":                  {0, spec(ptr(int64(5)), ptr(int64(30))), ptr(int64(2)), 2},
		"asked for more":                  {0, spec(ptr(int64(5)), ptr(int64(30))), ptr(int64(9)), 5},
		"asked for more than the spec's":  {0, spec(nil, ptr(int64(30))), ptr(int64(60)), 60},
		"never below one":                 {0, spec(nil, ptr(int64(30))), ptr(int64(0)), 1},
		"a source's zero is the shortest": {0, spec(ptr(int64(0)), ptr(int64(30))), ptr(int64(9)), 1},
		"less than before":                {8, spec(nil, ptr(int64(30))), ptr(int64(4)), 4},
		"not more than before":            {8, spec(ptr(int64(20)), nil), ptr(int64(10)), 8},
		"no pod":                          {0, nil, nil, 1},
		"no pod, asked":                   {0, nil, ptr(int64(3)), 3},
	} {
		if got := effectiveGrace(c.before, c.pod, c.asked); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// If no caller requested the stop of a pod, its grace period starts with the first attempt to stop it, and does not start
// again with the next attempt.
func TestDeadlineWithoutARequestStartsWithTheFirstAttempt(t *testing.T) {
	for name, stop := range map[string]func(*harness, Work){
		"over by itself": func(h *harness, w Work) { h.set.Done(w, SucceededTerminal) },
		"orphan":         func(h *harness, w Work) { h.set.SyncKnownPods(nil); h.set.Done(w, Failed) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			p := pod("a")
			p.Spec.TerminationGracePeriodSeconds = ptr(int64(30))
			h.update(Update{Type: Create, Pod: p})
			stop(h, h.next("a", SyncPod))
			h.now = now.Add(time.Second)
			for range 2 {
				w := h.next("a", SyncTerminatingPod)
				if want := now.Add(31 * time.Second); !w.Deadline.Equal(want) {
					t.Errorf("deadline %v, want %v", w.Deadline, want)
				}
				h.set.Done(w, Failed)
				h.set.Requeue("a")
				h.now = h.now.Add(10 * time.Second)
			}
			h.update(kill(p, 0, ptr(int64(5))))
			if w, want := h.next("a", SyncTerminatingPod), h.now.Add(5*time.Second); !w.Deadline.Equal(want) {
				t.Errorf("deadline after a request %v, want %v", w.Deadline, want)
			}
		})
	}
}

// After SyncPod has ended the pod, the pod's own grace period applies. A request can shorten it immediately, but not
// extend it (kubernetes #83916).
func TestW3_AfterThePodEndedItself(t *testing.T) {
	ended := func(h *harness) { h.set.Done(h.next("a", SyncPod), SucceededTerminal) }
	orphaned := func(h *harness) { h.do("a", SyncPod); h.set.SyncKnownPods(nil) }
	for name, c := range map[string]struct {
		own       *int64
		end       func(*harness)
		asked     int64
		grace     int64
		interrupt bool
	}{
		"ended by itself, less":   {ptr(int64(30)), ended, 5, 5, true},
		"ended by itself, more":   {ptr(int64(30)), ended, 300, 30, false},
		"orphaned, less":          {ptr(int64(30)), orphaned, 5, 5, true},
		"orphaned, more":          {ptr(int64(30)), orphaned, 300, 30, false},
		"with no time of its own": {nil, ended, 300, 300, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			p := pod("a")
			p.Spec.TerminationGracePeriodSeconds = c.own
			h.update(Update{Type: Create, Pod: p})
			c.end(h)
			w := h.next("a", SyncTerminatingPod)
			if e := h.update(kill(p, 0, &c.asked)); e.Interrupt != c.interrupt {
				t.Errorf("interrupt %v, want %v", e.Interrupt, c.interrupt)
			}
			h.set.Done(w, Failed)
			if w = h.next("a", SyncTerminatingPod); *w.GracePeriodSeconds != c.grace {
				t.Errorf("given %ds, want %ds", *w.GracePeriodSeconds, c.grace)
			}
		})
	}
}

// No grace period is so long that its deadline is in the past.
func TestW3_VeryLongGrace(t *testing.T) {
	for _, grace := range []int64{1 << 33, 9223372037, 18446744074, 1<<63 - 1} {
		h := newHarness(t)
		h.update(kill(pod("a"), 0, &grace))
		if w := h.next("a", SyncTerminatingPod); w.Deadline.Before(now.AddDate(200, 0, 0)) {
			t.Errorf("grace %ds: deadline %v", grace, w.Deadline)
		}
	}
}
