package syncpod

import (
	"maps"
	"sync"
	"time"
)

// killDeadlines are the deadlines of what has to go while its pod goes on: that of an
// instance by its ID, that of all there is by allOfPod.
type killDeadlines struct {
	mu sync.Mutex
	by map[string]time.Time
}

// allOfPod stands for all containers of a pod, which have to go with their sandbox.
const allOfPod = ""

// begin returns the deadline of what has to go: the earliest that was given, however
// often the kill has to be tried.
func (k *killDeadlines) begin(what string, deadline time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil { // few pods ever need it
		k.by = map[string]time.Time{}
	}
	k.by[what] = earliest(k.by[what], deadline)
	return k.by[what]
}

// end forgets the deadlines of what does not have to go any more.
func (k *killDeadlines) end(goes func(what string) bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.by, func(what string, _ time.Time) bool { return !goes(what) })
}
