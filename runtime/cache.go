package runtime

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Cache holds the newest status of each pod, and when it was read. It reads
// nothing itself: package runtime/pleg fills it, anyone may look.
//
// What a Cache says of time is what happened: a status is as old as the
// beginning of the read that brought it, and nothing but another read makes it
// younger (kubernetes #120942, #121003).
//
// The zero Cache is empty and ready for use. A Cache must not be copied; all its
// methods may be called concurrently. Statuses handed in and out are shared and
// must not be written to.
type Cache struct {
	mu      sync.Mutex
	entries map[types.UID]*cacheEntry
	// listed is when the newest list of all pods began: of a pod without an entry
	// the runtime had nothing then.
	listed time.Time
}

type cacheEntry struct {
	status   *PodStatus // of the newest read that succeeded, nil if none did
	err      error      // of the newest read
	observed time.Time  // when the newest read began, zero if there was none
	// present: a list showed the pod. What it has was not read yet if observed is
	// zero.
	present bool
	// news is closed by the next read. It is made by those who wait for it.
	news    chan struct{}
	waiting int
}

// Set enters what a read of a pod brought, a status or an error, and when the
// read began. Of two reads the one that began later counts, in whatever order
// they end: Set reports whether this one did. An error leaves the status of the
// read before it in place.
func (c *Cache) Set(uid types.UID, status *PodStatus, err error, observed time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	if e.absent() && observed.Before(c.listed) || e != nil && observed.Before(e.observed) {
		return false
	}
	if e == nil && err == nil && status.Empty() && observed.Equal(c.listed) {
		return true // as the list has said
	}
	if e == nil {
		e = c.add(uid)
	}
	if err == nil {
		e.status = status
	}
	e.err, e.observed = err, observed
	e.tell()
	return true
}

// SetListed enters that all pods were listed by a read that began at observed,
// and which ones there were. For every other pod that was a read: the runtime had
// nothing of it. Their entries are deleted, so that a Cache holds no more pods than
// the runtime does. What was read later stays. Of those listed it says that they
// are there; what they have is for Set to tell.
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
			e.tell()
		}
	}
}

// Get returns the status of the newest read of the pod that succeeded, nil if
// there was none or if the pod is not in the runtime, and the error of the newest
// read of all.
func (c *Cache) Get(uid types.UID) (*PodStatus, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[uid]; e != nil {
		return e.status, e.err
	}
	return nil, nil
}

// Newer returns what the newest read brought, if it began at since or later, and
// otherwise false. Of a pod that a list of all pods did not show, that is a status
// without sandboxes and containers. The zero since accepts every read.
func (c *Cache) Newer(uid types.UID, since time.Time) (status *PodStatus, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newer(uid, since)
}

// WaitNewer returns what Newer does, and waits for such a read if there was none
// yet. It makes no read happen. The error is the read's, or that of ctx.
func (c *Cache) WaitNewer(ctx context.Context, uid types.UID, since time.Time) (*PodStatus, error) {
	for {
		status, news, err := c.newerOrNews(uid, since)
		if news == nil {
			return status, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			c.leave(uid, news)
			return nil, ctx.Err()
		}
	}
}

// newerOrNews returns what a read at since or later brought, or else the channel
// that the next read closes.
func (c *Cache) newerOrNews(uid types.UID, since time.Time) (status *PodStatus, news chan struct{}, err error) {
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
	case e.absent() && !c.listed.IsZero() && !c.listed.Before(since):
		return &PodStatus{UID: uid, ObservedAt: c.listed}, true, nil
	case e == nil || e.observed.IsZero() || e.observed.Before(since):
		return nil, false, nil
	case e.err != nil:
		return nil, true, e.err
	}
	return e.status, true, nil
}

// leave ends a wait. An entry that was made to wait at goes with the last one.
func (c *Cache) leave(uid types.UID, news chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[uid]
	if e == nil || e.news != news {
		return
	}
	if e.waiting--; e.waiting > 0 {
		return
	}
	e.news = nil
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

// absent reports whether nothing is known of the pod but that the newest list, if
// there was one, did not show it.
func (e *cacheEntry) absent() bool {
	return e == nil || e.observed.IsZero() && !e.present
}

func (e *cacheEntry) await() chan struct{} {
	if e.news == nil {
		e.news = make(chan struct{})
	}
	e.waiting++
	return e.news
}

// tell wakes those who wait. They look again, and wait anew if need be.
func (e *cacheEntry) tell() {
	if e.news != nil {
		close(e.news)
	}
	e.news, e.waiting = nil, 0
}
