package critest

import "time"

// StepClock sets the runtime's clock forward, or back for a negative step: the times
// that it tells of containers, sandboxes and events from now on differ by so much from
// those of whoever asks. How long anything takes does not change.
func (r *Runtime) StepClock(step time.Duration) { r.skew.Add(int64(step)) }

// now is what the runtime's clock says, as CRI tells times.
func (r *Runtime) now() int64 { return time.Now().UnixNano() + r.skew.Load() }
