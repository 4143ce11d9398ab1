package critest

import "time"

// StepClock makes the clock of the node step forward, or back if step is negative. A test's clock
// cannot step. Instead, all times that the runtime has recorded of sandboxes and containers move the
// other way by step, which looks the same. Durations do not change.
func (r *Runtime) StepClock(step time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sb := range r.sandboxes {
		sb.createdAt -= int64(step)
	}
	for _, c := range r.containers {
		for _, at := range []*int64{&c.createdAt, &c.startedAt, &c.finishedAt} {
			if *at != 0 {
				*at -= int64(step)
			}
		}
	}
}
