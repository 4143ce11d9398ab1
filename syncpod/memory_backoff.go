package syncpod

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime"
)

// backOffs hold up what has failed in one pod. Most pods never need any: what holds what
// is made with the first failure.
type backOffs struct {
	config *Config

	mu sync.Mutex
	// crashes holds up containers that end, setups those that cannot be made. Nil holds
	// up nothing.
	crashes, setups *backoff.Backoff[backoffKey]
	// counted is the last instance of each container whose end crashes was told of.
	counted map[string]crash
	// restored is what an earlier agent recorded of crashes, by container, until it is used.
	restored map[string]CrashBackOff
	// failures are the last failures to make something, by the key held up.
	failures map[backoffKey]*StepError
	// excused are the keys of what has failed once since it last succeeded because the
	// runtime was away.
	excused map[backoffKey]bool
}

// crash is the end of one instance of a container that key holds up.
type crash struct {
	id  runtime.ContainerID
	at  time.Time
	key backoffKey
}

// backoffKey is what has to be the same for a failure to hold up the next try: a
// container whose image or resources change may run at once.
type backoffKey struct {
	container, image, resources string
}

func keyOf(c *v1.Container) backoffKey {
	return backoffKey{c.Name, c.Image, c.Resources.String()}
}

// crashed tells of the end of a container's current instance, once, and returns
// until when the next one has to wait.
func (b *backOffs) crashed(c *v1.Container, last *runtime.ContainerStatus, now time.Time) (until time.Time, wait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.countCrashes()
	key := keyOf(c)
	b.useRestored(c.Name, key)
	if before := b.counted[c.Name]; before.id != last.ID {
		at := last.FinishedAt
		if at.Equal(before.at) {
			at = time.Time{} // two ends, by a clock too coarse to tell them apart
		}
		b.counted[c.Name] = crash{last.ID, last.FinishedAt, key}
		b.crashes.Advance(key, now, at)
	}
	return b.crashes.Check(key, now)
}

// countCrashes makes what counts the ends of containers. It must be called with mu held.
func (b *backOffs) countCrashes() {
	if b.crashes == nil {
		b.crashes, _ = b.config.newBackoff(false) // New has made one, so it does not fail
		b.counted = map[string]crash{}
	}
}

// preview returns until when a container's next start has to wait if its current instance
// ended at that time. It counts nothing.
func (b *backOffs) preview(c *v1.Container, id runtime.ContainerID, at, now time.Time) (until time.Time, wait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.useRestored(c.Name, keyOf(c))
	if b.crashes == nil {
		return time.Time{}, false // a first end holds nothing up
	}
	before := b.counted[c.Name]
	if before.id == id {
		return b.crashes.Check(keyOf(c), now)
	}
	if at.Equal(before.at) {
		at = time.Time{}
	}
	return b.crashes.Preview(keyOf(c), now, at)
}

// isEmpty reports whether nothing has failed or ended yet.
func (b *backOffs) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.crashes == nil && b.setups == nil && len(b.restored) == 0
}

// held returns the failure for which the next try of what key holds up has to wait.
func (b *backOffs) held(key backoffKey, now time.Time) *StepError {
	b.mu.Lock()
	defer b.mu.Unlock()
	failure := b.failures[key]
	if failure == nil {
		return nil
	}
	until, wait := b.setups.Check(key, now)
	if !wait {
		return nil
	}
	return failure.waiting(until)
}

// failed notes that something could not be made, and returns until when the next try
// has to wait.
func (b *backOffs) failed(key backoffKey, err *StepError, now time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.setups == nil {
		b.setups, _ = b.config.newBackoff(true)
		b.failures = map[backoffKey]*StepError{}
	}
	b.failures[key] = err
	return b.setups.Advance(key, now, time.Time{})
}

// excuse reports whether a failure for which the runtime was away is the first one since
// what the key holds up has succeeded. Only that one does not count.
func (b *backOffs) excuse(key backoffKey) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.excused[key] {
		return false
	}
	if b.excused == nil {
		b.excused = map[backoffKey]bool{}
	}
	b.excused[key] = true
	return true
}

func (b *backOffs) succeeded(key backoffKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.excused, key)
	if b.setups != nil {
		b.setups.Forget(key)
		delete(b.failures, key)
	}
}
