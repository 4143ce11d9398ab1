package memory

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/backoff"
	"github.com/podsync/podsync/runtime"
)

// Crashes are the back-offs of containers that exit again and again. Most pods have none, so the state is
// created at the first exit.
type Crashes struct {
	limits   *Limits
	backOffs *backoff.Backoff[Key]
	// counted is the last instance of each container whose end was counted.
	counted map[string]crash
	// restored has an earlier agent's records, by container, until they are used.
	restored map[string]CrashBackOff
}

// crash is the exit of one container instance that key delays.
type crash struct {
	id  runtime.ContainerID
	at  time.Time
	key Key
}

// IsEmpty reports whether no container has exited yet.
func (b *Crashes) IsEmpty() bool { return b.backOffs == nil && len(b.restored) == 0 }

// Crashed counts the exit of a container's current instance, once, and returns until when the next instance has to
// wait.
func (b *Crashes) Crashed(c *v1.Container, last *runtime.ContainerStatus, now time.Time) (until time.Time, wait bool) {
	b.begin()
	key := KeyOf(c)
	b.useRestored(c.Name, key)
	if before := b.counted[c.Name]; before.id != last.ID {
		at := last.FinishedAt
		if at.Equal(before.at) {
			at = time.Time{} // two exits at times that the clock does not distinguish
		}
		put(&b.counted, c.Name, crash{last.ID, last.FinishedAt, key})
		b.backOffs.Advance(key, now, at)
	}
	return b.backOffs.Check(key, now)
}

// begin creates exit counters.
func (b *Crashes) begin() {
	if b.backOffs == nil {
		b.backOffs, _ = b.limits.backoff(false) // the limits were checked
	}
}

// Preview returns until when a container's next start has to wait if its current instance
// ended at that time. It changes nothing.
func (b *Crashes) Preview(c *v1.Container, id runtime.ContainerID, at, now time.Time) (until time.Time, wait bool) {
	key, before, backOffs := KeyOf(c), b.counted[c.Name], b.backOffs
	if recorded, found := b.restored[c.Name]; found && b.continues(c.Name, key, recorded) {
		before = recorded.crash(key)
		backOffs, _ = b.limits.backoff(false) // the limits were checked
		backOffs.Restore(key, recorded.state())
	}
	if backOffs == nil {
		return time.Time{}, false // no wait follows the first exit
	}
	if before.id == id {
		return backOffs.Check(key, now)
	}
	if at.Equal(before.at) {
		at = time.Time{}
	}
	return backOffs.Preview(key, now, at)
}

func (c CrashBackOff) equal(other CrashBackOff) bool {
	return c.Definition == other.Definition && c.Failures == other.Failures && c.ID == other.ID &&
		c.FinishedAt.Equal(other.FinishedAt) && c.CountedAt.Equal(other.CountedAt)
}

// savedCrash is the recorded part of a container's crash back-off.
type savedCrash struct {
	container string
	CrashBackOff
}

func (c savedCrash) equal(other savedCrash) bool {
	return c.container == other.container && c.CrashBackOff.equal(other.CrashBackOff)
}

// savedCrashes returns a record's entries, by the containers' names.
func savedCrashes(all map[string]CrashBackOff) (saved []savedCrash) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		saved = append(saved, savedCrash{name, all[name]})
	}
	return saved
}

// definition returns the parts of a key other than the container's name, hashed.
func (k Key) definition() string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(k.Image + "\x00" + k.Resources)) // never fails
	return strconv.FormatUint(sum.Sum64(), 16)
}

// restore keeps an earlier agent's records until the containers are started.
func (b *Crashes) restore(crashes []savedCrash) {
	for _, c := range crashes {
		put(&b.restored, c.container, c.CrashBackOff)
	}
}

// continues reports whether a recorded wait counts: the container's definition has not changed, and no other exit was counted
// since then.
func (b *Crashes) continues(container string, key Key, recorded CrashBackOff) bool {
	_, counted := b.counted[container]
	return !counted && recorded.Definition == key.definition()
}

// crash returns the exit that was counted.
func (c CrashBackOff) crash(key Key) crash { return crash{c.ID, c.FinishedAt, key} }

// state returns the state of the back-off.
func (c CrashBackOff) state() backoff.State {
	return backoff.State{Failures: c.Failures, FailedAt: c.CountedAt, Failure: c.FinishedAt}
}

// useRestored continues a recorded wait, if it counts.
func (b *Crashes) useRestored(container string, key Key) {
	recorded, found := b.restored[container]
	if !found {
		return
	}
	delete(b.restored, container)
	b.begin()
	if !b.continues(container, key, recorded) {
		return
	}
	put(&b.counted, container, recorded.crash(key))
	b.backOffs.Restore(key, recorded.state())
}

// save returns the crashes to record, by container name.
func (b *Crashes) save() (saved []savedCrash) {
	all := maps.Clone(b.restored)
	for name, last := range b.counted {
		if s, known := b.backOffs.State(last.key); known {
			put(&all, name, CrashBackOff{
				Definition: last.key.definition(), Failures: s.Failures, ID: last.id, FinishedAt: last.at.Round(0), CountedAt: s.FailedAt.Round(0),
			})
		}
	}
	return savedCrashes(all)
}
