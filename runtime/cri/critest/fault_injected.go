package critest

import (
	"fmt"
	"sync"
)

// Injected is a fault in force, on calls or on events.
type Injected struct {
	// // mu guards the fields below. It is the lock of the component that applies faults.
	mu      *sync.Mutex
	skip    int
	left    int // Always does not change
	strikes int
	// dropUsed takes the faults that are used up off the list of faults.
	dropUsed func()
}

// newInjected returns an Injected that lets skip matches pass and then strikes times.
// kind is the type of the fault, for errors; mu and dropUsed are for the caller to set.
func newInjected(kind string, skip, times int) (*Injected, error) {
	if skip < 0 {
		return nil, fmt.Errorf("critest: %s.Skip is negative", kind)
	}
	if times < Always {
		return nil, fmt.Errorf("critest: %s.Times is less than Always", kind)
	}
	if times == 0 {
		times = 1
	}
	return &Injected{skip: skip, left: times}, nil
}

// Hits is how many calls or events the fault has met.
func (i *Injected) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.strikes
}

// Remove takes the fault away. Calls that it has struck go on.
func (i *Injected) Remove() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = 0
	i.dropUsed()
}

// used reports whether the fault applies no more. It requires mu to be held.
func (i *Injected) used() bool { return i.left == 0 }

// strike reports whether the fault applies to a matching call. It requires mu to be held.
func (i *Injected) strike() bool {
	if i.skip > 0 {
		i.skip--
		return false
	}
	if i.left > 0 {
		i.left--
	}
	i.strikes++
	i.dropUsed()
	return true
}
