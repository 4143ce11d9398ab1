package inject

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// Calls has call faults. Its methods may be called concurrently.
type Calls struct {
	mu       sync.Mutex
	injected []callFault
	random   *chance
}

type callFault struct {
	*injected
	fault faults.Fault
}

// Inject injects a fault. known reports whether the runtime has a method.
func (c *Calls) Inject(f faults.Fault, known func(journal.Method) bool) (faults.Injected, error) {
	if err := validate(&f, known); err != nil {
		return nil, err
	}
	i, err := newInjected("Fault", f.Skip, f.Times)
	if err != nil {
		return nil, err
	}
	i.mu, i.dropUsed = &c.mu, c.dropUsed
	c.mu.Lock()
	defer c.mu.Unlock()
	c.injected = append(c.injected, callFault{i, f})
	return i, nil
}

func validate(f *faults.Fault, known func(journal.Method) bool) error {
	switch {
	case f.Match.Method != "" && !known(f.Match.Method):
		return fmt.Errorf("critest: Fault.Match.Method: unknown method %q", f.Match.Method)
	case f.When > faults.After:
		return fmt.Errorf("critest: Fault.When: unknown moment %d", f.When)
	case f.Delay < 0 || f.IPAfter < 0:
		return errors.New("critest: Fault.Delay and Fault.IPAfter must not be negative")
	case f.Delay == 0 && f.Hang == nil && f.Err == nil && f.IPAfter == 0 && !f.IgnoreCancel && f.IgnoreSignals == (faults.IgnoreSignals{}):
		return errors.New("critest: a Fault that does nothing")
	}
	return nil
}

// dropUsed must be called with mu held.
func (c *Calls) dropUsed() { c.injected = slices.DeleteFunc(c.injected, callFault.used) }

// Strike returns a call's fault, nil if there is none, and the random latency of the call. If several faults match, only
// the earliest that is not used up applies.
func (c *Calls) Strike(call *journal.Call) (*faults.Fault, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rng, lag := c.random.call(call)
	for _, i := range c.injected {
		if matches(&i.fault.Match, call) && i.strike() {
			return &i.fault, lag
		}
	}
	return c.random.fault(call, rng), lag
}

func matches(m *faults.Match, c *journal.Call) bool {
	return (m.Method == "" || m.Method == c.Method) &&
		(m.PodUID == "" || m.PodUID == c.PodUID) &&
		(m.Container == "" || m.Container == c.Container) &&
		(m.ID == "" || m.ID == c.ContainerID || m.ID == c.SandboxID) &&
		(m.Image == "" || m.Image == c.Image) &&
		(m.If == nil || m.If(*c))
}

// Act applies a fault's delay, hang and error.
func Act(ctx context.Context, f *faults.Fault) error {
	if err := Pause(ctx, f.Delay); err != nil {
		return err
	}
	if f.Hang != nil {
		if err := f.Hang.Wait(ctx); err != nil {
			return err
		}
	}
	return f.Err
}

// Pause waits for a duration, or until the context ends.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Describe describes a fault in a few words, for the journal.
func Describe(f *faults.Fault) string {
	var parts []string
	if f.Delay > 0 {
		parts = append(parts, "delay "+f.Delay.String())
	}
	if f.Hang != nil {
		parts = append(parts, "hang")
	}
	if f.IgnoreCancel {
		parts = append(parts, "ignores cancellation")
	}
	if f.Err != nil {
		parts = append(parts, "error")
	}
	if f.IPAfter > 0 {
		parts = append(parts, "late address")
	}
	if f.IgnoreSignals != (faults.IgnoreSignals{}) {
		parts = append(parts, "ignores signals")
	}
	return [...]string{"before", "midway", "after"}[f.When] + ": " + strings.Join(parts, ", ")
}
