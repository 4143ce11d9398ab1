package podworkers

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

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
