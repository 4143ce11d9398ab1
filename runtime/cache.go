package runtime

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cache holds the newest status of each pod and the time when it was read. It does not read
// statuses itself: package runtime/pleg fills it, and any component may query it.
//
// The time of a status is the time when the read that produced it began. Only another read makes a
// status newer (kubernetes #120942, #121003).
//
// The zero Cache is empty and ready for use. A Cache must not be copied; its methods may be called
// concurrently. Statuses passed in and returned are shared and must not be modified.
type Cache struct {
	mu      sync.Mutex
	entries map[types.UID]*cacheEntry
	// listed is when the newest pod list began. The runtime had no sandbox or container for a pod
	// without an entry at that time.
	listed time.Time
}

type cacheEntry struct {
	status   *PodStatus // the status from the newest read that succeeded, nil if none succeeded
	err      error      // the newest read's error
	observed time.Time  // when the newest read began, zero if the pod was never read
	// present means that a list contained the pod. If observed is zero, its status has not been
	// read yet.
	present bool
	// updated is closed by the next read. It is created by goroutines that wait for it.
	updated chan struct{}
	waiting int
}

// Set stores a pod read's result, a status or an error, and the time when the read began. Set
// ignores a read that began before the stored one, in whatever order the two end, and then returns
// false. An error keeps the previous read's status.
func (c *Cache) Set(uid types.UID, status *PodStatus, err error, observed time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	if e.absent() && observed.Before(c.listed) || e != nil && observed.Before(e.observed) {
		return false
	}
	if e == nil && err == nil && status.Empty() && observed.Equal(c.listed) {
		return true // the newest list did not contain the pod either
	}
	if e == nil {
		e = c.add(uid)
	}
	if err == nil {
		e.status = status
	}
	e.err, e.observed = err, observed
	e.notify()
	return true
}

// SetListed stores the UIDs in a list that contains all pods that began at observed. For every
// other pod the list counts as a read without sandboxes and containers. SetListed deletes those
// pods' entries, so that a Cache holds no more pods than the runtime does. It keeps newer reads.
// The listed pods are marked as present; Set stores their statuses.
func (c *Cache) SetListed(uids []types.UID, observed time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if observed.Before(c.listed) {
		return
	}
	c.listed = observed
	for _, e := range c.entries {
		e.present = false
	}
	for _, uid := range uids {
		e := c.entries[uid]
		if e == nil {
			e = c.add(uid)
		}
		e.present = true
	}
	for uid, e := range c.entries {
		if !e.present && !observed.Before(e.observed) {
			delete(c.entries, uid)
			e.notify()
		}
	}
}

// Get returns the status from the pod's newest successful read, nil if there is none or the
// runtime does not have the pod, and the newest read's error.
func (c *Cache) Get(uid types.UID) (*PodStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[uid]; e != nil {
		return e.status, e.err
	}
	return nil, nil
}

// Newer returns the newest read's result if it began after since, and otherwise false: with equal times, a clock does
// not show which came first. For a pod that a list of all pods did not contain, the result is a status without
// sandboxes and containers. The zero since accepts every read.
func (c *Cache) Newer(uid types.UID, since time.Time) (status *PodStatus, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newer(uid, since)
}

// WaitNewer is Newer, but waits for such a read if there is none yet. It does not trigger a read.
// The error is the error from the read, or of ctx.
func (c *Cache) WaitNewer(ctx context.Context, uid types.UID, since time.Time) (*PodStatus, error) {
	for {
		status, updated, err := c.newerOrUpdated(uid, since)
		if updated == nil {
			return status, err
		}
		select {
		case <-updated:
		case <-ctx.Done():
			c.leave(uid, updated)
			return nil, ctx.Err()
		}
	}
}

// newerOrUpdated returns a read's result after since, or else the channel that the next read
// closes.
func (c *Cache) newerOrUpdated(uid types.UID, since time.Time) (status *PodStatus, updated chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if status, ok, err := c.newer(uid, since); ok {
		return status, nil, err
	}
	e := c.entries[uid]
	if e == nil {
		e = c.add(uid)
	}
	return nil, e.await(), nil
}

// newer must be called with mu held.
func (c *Cache) newer(uid types.UID, since time.Time) (status *PodStatus, ok bool, err error) {
	e := c.entries[uid]
	switch {
	case e.absent() && c.listed.After(since):
		return &PodStatus{UID: uid, ObservedAt: c.listed}, true, nil
	case e == nil || !e.observed.After(since):
		return nil, false, nil
	case e.err != nil:
		return nil, true, e.err
	}
	return e.status, true, nil
}

// leave ends a wait. If the entry was created for waiting goroutines, the last one deletes it.
func (c *Cache) leave(uid types.UID, updated chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	if e == nil || e.updated != updated {
		return
	}
	if e.waiting--; e.waiting > 0 {
		return
	}
	e.updated = nil
	if e.absent() {
		delete(c.entries, uid)
	}
}

// UIDs returns the pods that the Cache has an entry for, in order.
func (c *Cache) UIDs() []types.UID {
	c.mu.Lock()
	defer c.mu.Unlock()
	uids := make([]types.UID, 0, len(c.entries))
	for uid, e := range c.entries {
		if !e.observed.IsZero() {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// add must be called with mu held.
func (c *Cache) add(uid types.UID) *cacheEntry {
	if c.entries == nil {
		c.entries = map[types.UID]*cacheEntry{}
	}
	e := &cacheEntry{}
	c.entries[uid] = e
	return e
}

// absent reports whether the entry holds nothing except that the newest list, if any, did not
// contain the pod.
func (e *cacheEntry) absent() bool {
	return e == nil || e.observed.IsZero() && !e.present
}

func (e *cacheEntry) await() chan struct{} {
	if e.updated == nil {
		e.updated = make(chan struct{})
	}
	e.waiting++
	return e.updated
}

// notify wakes all waiting goroutines. They check again, and wait again if necessary.
func (e *cacheEntry) notify() {
	if e.updated != nil {
		close(e.updated)
	}
	e.updated, e.waiting = nil, 0
}
