package critest

import "time"

// StepClock has the clock of the node step forward, or back for a negative step. A clock
// that tests use does not step; so all times that the runtime has recorded of
// sandboxes and containers are that much longer ago, which is how it looks from after
// such a step. How long anything takes does not change.
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
