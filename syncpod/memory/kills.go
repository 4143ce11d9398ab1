package memory

import (
	"maps"
	"time"
)

// KillDeadlines are the deadlines of containers that must stop while the pod keeps running: by
// instance ID, or [AllOfPod] for the whole pod. The zero value has none.
type KillDeadlines struct{ by map[string]time.Time }

// AllOfPod is the key for all containers in a pod, which stop with their sandbox.
const AllOfPod = ""

// Begin returns a stop's deadline: the earliest one given, however often the stop is retried.
func (k *KillDeadlines) Begin(what string, deadline time.Time) time.Time {
	if k.by == nil { // few pods ever need it
		k.by = map[string]time.Time{}
	}
	k.by[what] = Earliest(k.by[what], deadline)
	return k.by[what]
}

// End drops the deadlines for which stops returns false.
func (k *KillDeadlines) End(stops func(what string) bool) {
	maps.DeleteFunc(k.by, func(what string, _ time.Time) bool { return !stops(what) })
}
