package syncpod

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime"
)

// CrashBackOff is the back-off of a container that ends again and again.
type CrashBackOff struct {
	// Definition stands for the container's image and resources: the back-off holds for no
	// others.
	Definition string
	// Failures is how many ends of the container count, at most 64. Only the last one is
	// described here.
	Failures int
	// ID is the instance that ended last, FinishedAt when it did by the runtime's clock, and
	// CountedAt the time by the agent's clock from which the wait counts.
	ID                    runtime.ContainerID
	FinishedAt, CountedAt time.Time
}

func (c CrashBackOff) equal(other CrashBackOff) bool {
	return c.Definition == other.Definition && c.Failures == other.Failures && c.ID == other.ID &&
		c.FinishedAt.Equal(other.FinishedAt) && c.CountedAt.Equal(other.CountedAt)
}

// savedCrash is what is recorded of the ends of a container.
type savedCrash struct {
	container string
	CrashBackOff
}

func (c savedCrash) equal(other savedCrash) bool {
	return c.container == other.container && c.CrashBackOff.equal(other.CrashBackOff)
}

// savedCrashes returns what a record has, by the names of the containers.
func savedCrashes(all map[string]CrashBackOff) (saved []savedCrash) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		saved = append(saved, savedCrash{name, all[name]})
	}
	return saved
}

// definition stands for what a key has beside the container's name.
func (k backoffKey) definition() string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(k.image + "\x00" + k.resources)) // which never fails
	return strconv.FormatUint(sum.Sum64(), 16)
}

// restore keeps what an earlier agent has recorded until the container is to be started.
func (b *backOffs) restore(crashes []savedCrash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range crashes {
		put(&b.restored, c.container, c.CrashBackOff)
	}
}

// useRestored continues a recorded wait, unless the container is another one now, or an end of
// it has been counted since. It must be called with mu held.
func (b *backOffs) useRestored(container string, key backoffKey) {
	recorded, found := b.restored[container]
	if !found {
		return
	}
	delete(b.restored, container)
	b.countCrashes()
	if _, counted := b.counted[container]; counted || recorded.Definition != key.definition() {
		return
	}
	b.counted[container] = crash{recorded.ID, recorded.FinishedAt, key}
	b.crashes.Restore(key, backoff.State{Failures: recorded.Failures, FailedAt: recorded.CountedAt, Failure: recorded.FinishedAt})
}

// toRecord returns what is to be recorded of crashes, by the names of the containers.
func (b *backOffs) toRecord() (saved []savedCrash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, recorded := range b.restored {
		saved = append(saved, savedCrash{name, recorded})
	}
	for name, last := range b.counted {
		if s, known := b.crashes.State(last.key); known {
			saved = append(saved, savedCrash{name, CrashBackOff{
				Definition: last.key.definition(), Failures: s.Failures, ID: last.id, FinishedAt: last.at.Round(0), CountedAt: s.FailedAt.Round(0),
			}})
		}
	}
	slices.SortFunc(saved, func(a, c savedCrash) int { return strings.Compare(a.container, c.container) })
	return saved
}
