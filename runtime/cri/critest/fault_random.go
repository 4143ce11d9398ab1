package critest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Random makes a runtime unreliable from a seed. A fault depends on the seed, on the subject of the
// call and on the number of such calls, not on the order of goroutines: the same agent meets the
// same faults in every run.
type Random struct {
	Seed uint64
	// Rate is the share of calls with a fault, between 0 and 1.
	Rate float64
	// Methods can be struck; nil means all. Event streams begin undisturbed.
	Methods []Method
	// MaxDelay bounds the time a struck call takes. Default: 10 s.
	MaxDelay time.Duration
	// EventRate is the share of events that are dropped, doubled, delayed or
	// sent after the next one, between 0 and 1.
	EventRate float64
	// Latency bounds the time that every call takes before it does anything, and
	// every event before it is sent; events stay in order. Each takes a time of its own,
	// from the seed: so hardly two things happen in the same instant, and in what order
	// goroutines run decides little. 0 is none.
	Latency time.Duration
	// budget is the maximum number of calls, and of events, with a fault, so that an agent must
	// eventually succeed. 0 means no limit.
	budget int
}

// A chance is one stream of decisions, on calls or on events.
type chance struct {
	Random
	rate   float64
	struck int
	seen   map[string]uint64
}

// next is the source of all decisions on the next one of a kind, and how long it
// takes.
func (c *chance) next(kind string) (rng *rand.Rand, lag time.Duration) {
	if c == nil {
		return nil, 0
	}
	n := c.seen[kind]
	c.seen[kind]++
	h := fnv.New64a()
	h.Write([]byte(kind))
	rng = rand.New(rand.NewPCG(c.Seed^h.Sum64(), n))
	if c.Latency > 0 {
		lag = time.Duration(rng.Int64N(int64(c.Latency)) + 1)
	}
	return rng, lag
}

// strikes decides whether something happens.
func (c *chance) strikes(rng *rand.Rand) bool {
	if c == nil || c.budget > 0 && c.struck >= c.budget || rng.Float64() >= c.rate {
		return false
	}
	c.struck++
	return true
}

// SetRandom makes the runtime unreliable; the zero Random makes it reliable
// again. Injected faults come first.
func (r *Runtime) SetRandom(c Random) error {
	switch {
	case c.Rate < 0 || c.Rate > 1 || c.EventRate < 0 || c.EventRate > 1:
		return errors.New("critest: Random.Rate and Random.EventRate must be between 0 and 1")
	case c.MaxDelay < 0 || c.Latency < 0 || c.budget < 0:
		return errors.New("critest: Random.MaxDelay, Random.Latency and Random.budget must not be negative")
	}
	for _, m := range c.Methods {
		if !known(m) {
			return fmt.Errorf("critest: Random.Methods: unknown method %q", m)
		}
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = 10 * time.Second
	}
	c.Methods = slices.Clone(c.Methods)
	r.faults.mu.Lock()
	r.faults.random = &chance{Random: c, rate: c.Rate, seen: map[string]uint64{}}
	r.faults.mu.Unlock()
	r.events.mu.Lock()
	r.events.random = &chance{Random: c, rate: c.EventRate, seen: map[string]uint64{}}
	r.events.mu.Unlock()
	return nil
}

// call begins the decisions on a call. It must be called with the faults' mu held, as
// what follows from it.
func (c *chance) call(call *Call) (*rand.Rand, time.Duration) {
	return c.next(fmt.Sprintf("%s %s %s %d %s %s", call.Method, call.PodUID, call.Container, call.Attempt, call.Image, listed(call)))
}

// listed distinguishes lists, which have no subject.
func listed(c *Call) string {
	if c.Method != ListPodSandbox && c.Method != ListContainers {
		return ""
	}
	switch q := c.Request().(type) {
	case *runtimeapi.ListPodSandboxRequest:
		return fmt.Sprint(q.GetFilter().GetLabelSelector()) // sorted
	case *runtimeapi.ListContainersRequest:
		return fmt.Sprint(q.GetFilter().GetLabelSelector())
	}
	return ""
}

// fault decides on a call.
func (c *chance) fault(call *Call, rng *rand.Rand) *Fault {
	if call.Method == GetContainerEvents || c != nil && len(c.Methods) > 0 && !slices.Contains(c.Methods, call.Method) || !c.strikes(rng) {
		return nil
	}
	return c.choose(rng)
}

// event begins the decisions on an event. It must be called with the broker's mu
// held, as what follows from it.
func (c *chance) event(t runtimeapi.ContainerEventType, who subject) (*rand.Rand, time.Duration) {
	return c.next(fmt.Sprintf("%s %s %s %d", t, who.uid, who.container, who.attempt))
}

// eventFault decides on an event.
func (c *chance) eventFault(rng *rand.Rand) *EventFault {
	if !c.strikes(rng) {
		return nil
	}
	f := &EventFault{Action: []EventAction{EventDrop, EventDuplicate, EventReorder, EventDelay}[rng.IntN(4)]}
	if f.Action == EventDelay {
		f.Delay = c.delay(rng)
	}
	return f
}

func (c *chance) delay(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Int64N(int64(c.MaxDelay)) + 1)
}

// choose makes one of: refused, done but not answered, slow, slow and done
// after the caller may have gone, stuck halfway and failed.
func (c *chance) choose(rng *rand.Rand) *Fault {
	delay := c.delay(rng)
	refusal := []error{
		status.Error(codes.Unknown, "critest: random failure"),
		status.Error(codes.Unavailable, "critest: random outage"),
		status.Error(codes.DeadlineExceeded, "critest: random timeout"),
	}[rng.IntN(3)]
	switch rng.IntN(5) {
	case 0:
		return &Fault{Err: refusal}
	case 1:
		return &Fault{When: After, Err: refusal}
	case 2:
		return &Fault{Delay: delay}
	case 3:
		return &Fault{When: Midway, Delay: delay, IgnoreCancel: true}
	}
	return &Fault{When: Midway, Delay: delay, Err: refusal}
}
