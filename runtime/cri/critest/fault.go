package critest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Match chooses calls. A zero field matches every call.
type Match struct {
	Method    Method
	PodUID    string
	Container string // name
	ID        string // of the container or sandbox
	Image     string // as the call has it
	// If is asked last. It sees the call as it begins and must not call the
	// runtime's methods.
	If func(Call) bool
}

func (m Match) matches(c Call) bool {
	return (m.Method == "" || m.Method == c.Method) &&
		(m.PodUID == "" || m.PodUID == c.PodUID) &&
		(m.Container == "" || m.Container == c.Container) &&
		(m.ID == "" || m.ID == c.ContainerID || m.ID == c.SandboxID) &&
		(m.Image == "" || m.Image == c.Image) &&
		(m.If == nil || m.If(c))
}

// When is the moment of a call at which a fault strikes.
type When uint8

const (
	// Before it has had any effect.
	Before When = iota
	// Midway: the name is reserved, nothing is to be seen yet, as when a
	// runtime waits for a network plugin or a registry. RunPodSandbox,
	// CreateContainer, StartContainer and PullImage have such a moment; for
	// all other methods it is Before. A call that ends here with an error
	// undoes its reservation.
	Midway
	// After its whole effect. If the call failed by itself, nothing strikes.
	After
)

// Always lets a fault strike as often as it matches.
const Always = -1

// Never is an address that does not come by itself.
const Never = time.Duration(1<<63 - 1)

// Fault selects calls and a fault. Its parts apply in the order of the fields; zero parts do not
// apply.
type Fault struct {
	Match Match
	// Skip lets so many matching calls pass, Times strikes so many: 0 is one,
	// Always is all.
	Skip, Times int
	When        When
	// Delay takes time, Hang waits for the gate to open.
	Delay time.Duration
	Hang  *Gate
	// IgnoreCancel makes the call ignore the end of its context: after Delay and Hang it succeeds
	// late, without a caller. Without it the call fails when its context ends, and a half-done
	// effect is undone.
	IgnoreCancel bool
	// Err is the response, a status error. It ends the call.
	Err error
	// IPAfter makes the address of a RunPodSandbox's sandbox appear so much
	// later than its READY state; Never waits for EditSandbox.
	IPAfter time.Duration
	// IgnoreSignals is how the container of a CreateContainer will take a stop.
	IgnoreSignals IgnoreSignals
}

// A Gate holds calls until it opens. The zero value is closed. In a
// testing/synctest bubble, make it inside.
type Gate struct {
	mu      sync.Mutex
	open    chan struct{} // created when it is first needed
	opened  bool
	waiting int
}

// Open lets everyone through, now and later.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened {
		return
	}
	g.opened = true
	close(g.passage())
}

// Waiting is the number of calls that wait at the gate.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// passage is closed when the gate opens. It must be called with mu held.
func (g *Gate) passage() chan struct{} {
	if g.open == nil {
		g.open = make(chan struct{})
	}
	return g.open
}

// arrive counts a call that comes (1) or goes (-1).
func (g *Gate) arrive(n int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
	return g.passage()
}

func (g *Gate) wait(ctx context.Context) error {
	passage := g.arrive(1)
	defer g.arrive(-1)
	select {
	case <-passage:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Fault) act(ctx context.Context) error {
	if err := pause(ctx, f.Delay); err != nil {
		return err
	}
	if f.Hang != nil {
		if err := f.Hang.wait(ctx); err != nil {
			return err
		}
	}
	return f.Err
}

// String describes the fault in a few words, for the journal.
func (f *Fault) String() string {
	var parts []string
	if f.Delay > 0 {
		parts = append(parts, "delay "+f.Delay.String())
	}
	if f.Hang != nil {
		parts = append(parts, "hang")
	}
	if f.IgnoreCancel {
		parts = append(parts, "deaf")
	}
	if f.Err != nil {
		parts = append(parts, "error")
	}
	if f.IPAfter > 0 {
		parts = append(parts, "late address")
	}
	if f.IgnoreSignals != (IgnoreSignals{}) {
		parts = append(parts, "stubborn")
	}
	return [...]string{"before", "midway", "after"}[f.When] + ": " + strings.Join(parts, ", ")
}

func (f *Fault) validate() error {
	switch {
	case f.Match.Method != "" && !known(f.Match.Method):
		return fmt.Errorf("critest: Fault.Match.Method: unknown method %q", f.Match.Method)
	case f.When > After:
		return fmt.Errorf("critest: Fault.When: unknown moment %d", f.When)
	case f.Delay < 0 || f.IPAfter < 0:
		return errors.New("critest: Fault.Delay and Fault.IPAfter must not be negative")
	case f.Delay == 0 && f.Hang == nil && f.Err == nil && f.IPAfter == 0 && !f.IgnoreCancel && f.IgnoreSignals == (IgnoreSignals{}):
		return errors.New("critest: a Fault that does nothing")
	}
	return nil
}

// Inject puts a fault in force. Where several match a call, the one injected
// first and not yet used up strikes, and no other.
func (r *Runtime) Inject(f Fault) (*Injected, error) {
	if err := f.validate(); err != nil {
		return nil, err
	}
	i, err := newInjected("Fault", f.Skip, f.Times)
	if err != nil {
		return nil, err
	}
	i.mu, i.dropUsed = &r.faults.mu, r.faults.dropUsed
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.injected = append(r.faults.injected, injectedFault{i, f})
	return i, nil
}

type faults struct {
	mu       sync.Mutex
	injected []injectedFault
	random   *chance
}

// dropUsed must be called with mu held.
func (f *faults) dropUsed() { f.injected = slices.DeleteFunc(f.injected, injectedFault.used) }

type injectedFault struct {
	*Injected
	fault Fault
}

// strike takes the fault for a call, if there is one, and the time that the call takes
// by chance.
func (r *Runtime) strike(c *Call) (*Fault, time.Duration) {
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	rng, lag := r.faults.random.call(c)
	for _, i := range r.faults.injected {
		if i.fault.Match.matches(*c) && i.strike() {
			return &i.fault, lag
		}
	}
	return r.faults.random.fault(c, rng), lag
}

type faultKey struct{}

func withFault(ctx context.Context, f *Fault) context.Context {
	return context.WithValue(ctx, faultKey{}, f)
}

func faultOf(ctx context.Context) *Fault {
	f, _ := ctx.Value(faultKey{}).(*Fault)
	return f
}

// midway is the moment that handlers stop at when a fault wants them to.
func midway(ctx context.Context) error {
	if f := faultOf(ctx); f != nil && f.When == Midway {
		return f.act(ctx)
	}
	return nil
}
