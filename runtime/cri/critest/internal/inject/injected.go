package inject

import (
	"fmt"
	"sync"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
)

// injected is an injected fault, of calls or of events.
type injected struct {
	// mu guards the fields below. It is the lock of the Calls or Events that apply the fault.
	mu      *sync.Mutex
	skip    int
	left    int // it stays faults.Always
	strikes int
	// dropUsed removes used-up faults from the list of faults.
	dropUsed func()
}

// newInjected returns an injected that lets skip matches pass and then applies times times. kind is the type of the
// fault, for errors. The caller sets mu and dropUsed.
func newInjected(kind string, skip, times int) (*injected, error) {
	if skip < 0 {
		return nil, fmt.Errorf("critest: %s.Skip is negative", kind)
	}
	if times < faults.Always {
		return nil, fmt.Errorf("critest: %s.Times is less than Always", kind)
	}
	if times == 0 {
		times = 1
	}
	return &injected{skip: skip, left: times}, nil
}

// Hits implements faults.Injected.
func (i *injected) Hits() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.strikes
}

// Remove implements faults.Injected.
func (i *injected) Remove() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.left = 0
	i.dropUsed()
}

// used reports whether the fault is used up. It requires mu to be held.
func (i *injected) used() bool { return i.left == 0 }

// strike reports whether the fault applies to a matching call. It requires mu to be held.
func (i *injected) strike() bool {
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
