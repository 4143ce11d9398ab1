package inject

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

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/journal"
)

// A chance is one sequence of random decisions, on calls or on events.
type chance struct {
	faults.Random
	rate float64
	seen map[string]uint64
}

// next returns the source of all decisions on the next call or event of a kind, and its latency.
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

// strikes decides whether a fault applies.
func (c *chance) strikes(rng *rand.Rand) bool {
	return c != nil && rng.Float64() < c.rate
}

// SetRandom makes calls and events unreliable; the zero Random makes them reliable again. known reports whether the runtime
// has a method.
func SetRandom(r faults.Random, calls *Calls, events *Events, known func(journal.Method) bool) error {
	switch {
	case r.Rate < 0 || r.Rate > 1 || r.EventRate < 0 || r.EventRate > 1:
		return errors.New("critest: Random.Rate and Random.EventRate must be between 0 and 1")
	case r.MaxDelay < 0 || r.Latency < 0:
		return errors.New("critest: Random.MaxDelay and Random.Latency must not be negative")
	}
	for _, m := range r.Methods {
		if !known(m) {
			return fmt.Errorf("critest: Random.Methods: unknown method %q", m)
		}
	}
	if r.MaxDelay == 0 {
		r.MaxDelay = 10 * time.Second
	}
	r.Methods = slices.Clone(r.Methods)
	calls.mu.Lock()
	calls.random = &chance{Random: r, rate: r.Rate, seen: map[string]uint64{}}
	calls.mu.Unlock()
	events.mu.Lock()
	events.random = &chance{Random: r, rate: r.EventRate, seen: map[string]uint64{}}
	events.mu.Unlock()
	return nil
}

// call begins the decisions on a call. It must be called with the mu of Calls held, and so must the methods that use its
// result.
func (c *chance) call(call *journal.Call) (*rand.Rand, time.Duration) {
	return c.next(fmt.Sprintf("%s %s %s %d %s %s", call.Method, call.PodUID, call.Container, call.Attempt, call.Image, listed(call)))
}

// listed returns a text that distinguishes lists, which have no subject.
func listed(c *journal.Call) string {
	if c.Method != "ListPodSandbox" && c.Method != "ListContainers" {
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

// fault decides on a call's fault.
func (c *chance) fault(call *journal.Call, rng *rand.Rand) *faults.Fault {
	if call.Method == "GetContainerEvents" || c != nil && len(c.Methods) > 0 && !slices.Contains(c.Methods, call.Method) || !c.strikes(rng) {
		return nil
	}
	return c.choose(rng)
}

// event begins the decisions on an event. It must be called with the mu of Events held, and so must the methods that use
// its result.
func (c *chance) event(t runtimeapi.ContainerEventType, who Subject) (*rand.Rand, time.Duration) {
	return c.next(fmt.Sprintf("%s %s %s %d", t, who.PodUID, who.Container, who.Attempt))
}

// eventFault decides on an event's fault.
func (c *chance) eventFault(rng *rand.Rand) *faults.Event {
	if !c.strikes(rng) {
		return nil
	}
	f := &faults.Event{Action: []faults.Action{faults.Drop, faults.Duplicate, faults.Reorder, faults.Delay}[rng.IntN(4)]}
	if f.Action == faults.Delay {
		f.Delay = c.delay(rng)
	}
	return f
}

func (c *chance) delay(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Int64N(int64(c.MaxDelay)) + 1)
}

// choose returns one of these faults: refused; done, but the response is an error; slow; half done, slow
// and successful, even without its caller; half done, slow and failed.
func (c *chance) choose(rng *rand.Rand) *faults.Fault {
	delay := c.delay(rng)
	refusal := []error{
		status.Error(codes.Unknown, "critest: random failure"),
		status.Error(codes.Unavailable, "critest: random outage"),
		status.Error(codes.DeadlineExceeded, "critest: random timeout"),
	}[rng.IntN(3)]
	switch rng.IntN(5) {
	case 0:
		return &faults.Fault{Err: refusal}
	case 1:
		return &faults.Fault{When: faults.After, Err: refusal}
	case 2:
		return &faults.Fault{Delay: delay}
	case 3:
		return &faults.Fault{When: faults.Midway, Delay: delay, IgnoreCancel: true}
	}
	return &faults.Fault{When: faults.Midway, Delay: delay, Err: refusal}
}
