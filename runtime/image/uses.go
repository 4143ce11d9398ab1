package image

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// uses has the times at which images were last used, by their normalized names.
type uses map[string]time.Time

// maxUses limits the map: the images that fit on a node have fewer names. The least recently used
// name is dropped first, so its image is still the first to be removed.
const maxUses = 4096

func (u *uses) note(names []string, now time.Time) {
	if *u == nil {
		*u = uses{}
	}
	for _, name := range names {
		(*u)[name] = now
	}
	if len(*u) > maxUses {
		u.halve()
	}
}

// halve drops the least recently used half.
func (u uses) halve() {
	names := slices.SortedFunc(maps.Keys(u), func(a, b string) int {
		if order := u[a].Compare(u[b]); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	for _, name := range names[:len(names)/2] {
		delete(u, name)
	}
}

func (u uses) last(names []string) time.Time {
	var last time.Time
	for _, name := range names {
		if t := u[name]; t.After(last) {
			last = t
		}
	}
	return last
}

// noteUse notes that an image is in use, by any name.
func (l *Leases) noteUse(now time.Time, names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used.note(names, now)
}

// lastUse returns when an image was last used, zero if unknown.
func (l *Leases) lastUse(names []string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.used.last(names)
}

// forgetUses drops the uses for images that did not exist at the time then, except later
// uses.
func (l *Leases) forgetUses(there map[string]bool, then time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.used, func(name string, t time.Time) bool { return !there[name] && t.Before(then) })
}
