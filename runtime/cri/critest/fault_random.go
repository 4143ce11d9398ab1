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
)

// Random makes a runtime unreliable from a seed. What happens to a call
// depends on the seed, on what the call is about and on how many such calls
// there were, not on the order in which goroutines run: the same agent meets
// the same faults in every run.
type Random struct {
	Seed uint64
	// Rate is the share of calls that something happens to, between 0 and 1.
	Rate float64
	// Methods can be struck; nil means all that change something, and reads.
	Methods []Method
	// MaxDelay bounds the time a struck call takes. Default: 10 s.
	MaxDelay time.Duration
	// Budget is the number of calls that are struck in all, so that an agent
	// can be asked to arrive in the end. 0 means no limit.
	Budget int
}

type chance struct {
	Random
	struck int
	seen   map[string]uint64
}

// SetRandom makes the runtime unreliable; a zero Rate makes it reliable
// again. Injected faults come first. Event streams are left alone: see InjectEvent.
func (r *Runtime) SetRandom(c Random) error {
	switch {
	case c.Rate < 0 || c.Rate > 1:
		return errors.New("critest: Random.Rate is not between 0 and 1")
	case c.MaxDelay < 0 || c.Budget < 0:
		return errors.New("critest: Random.MaxDelay and Random.Budget must not be negative")
	}
	for _, m := range c.Methods {
		if !m.known() {
			return fmt.Errorf("critest: Random.Methods: unknown method %q", m)
		}
	}
	if c.MaxDelay == 0 {
		c.MaxDelay = 10 * time.Second
	}
	c.Methods = slices.Clone(c.Methods)
	r.faults.mu.Lock()
	defer r.faults.mu.Unlock()
	r.faults.random = &chance{Random: c, seen: map[string]uint64{}}
	return nil
}

// fault decides on a call. It must be called with the faults' mu held.
func (c *chance) fault(call *Call) *Fault {
	if c == nil || c.Rate == 0 || c.Budget > 0 && c.struck >= c.Budget {
		return nil
	}
	if len(c.Methods) > 0 && !slices.Contains(c.Methods, call.Method) {
		return nil
	}
	key := fmt.Sprintf("%s %s %s %d %s", call.Method, call.PodUID, call.Container, call.Attempt, call.Image)
	n := c.seen[key]
	c.seen[key]++
	h := fnv.New64a()
	h.Write([]byte(key))
	rng := rand.New(rand.NewPCG(c.Seed^h.Sum64(), n))
	if rng.Float64() >= c.Rate {
		return nil
	}
	c.struck++
	return c.choose(rng)
}

// choose makes one of: refused, done but not answered, slow, slow and done
// after the caller may have gone, stuck halfway and failed.
func (c *chance) choose(rng *rand.Rand) *Fault {
	delay := time.Duration(rng.Int64N(int64(c.MaxDelay)) + 1)
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
		return &Fault{When: Midway, Delay: delay, Deaf: true}
	}
	return &Fault{When: Midway, Delay: delay, Err: refusal}
}
