package pleg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/reader"
)

// Reader reads pods from the runtime. A *reader.Reader implements it. Errors have a class from package
// cri.
type Reader interface {
	List(ctx context.Context) ([]*reader.ListedPod, error)
	Inspect(ctx context.Context, listed *reader.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error)
	PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error)
}

// Config configures a Watcher. A zero field means its default.
type Config struct {
	Settings
	// Reader reads pods. Required.
	Reader Reader
	// Events streams the runtime's container events. A *cri.Client implements it for all runtimes;
	// the Watcher detects that a runtime has no events. Nil means that only lists are used.
	Events EventStreamer
	// Owner is the owner whose events are used. It should be the Reader's. Default: the zero Owner, for
	// objects that podsync created.
	Owner cri.Owner
	// Cache receives the statuses. No other component should write to it. Default: the Watcher's
	// own Cache.
	Cache *runtime.Cache

	// Observed is called with each status that was read, changed or not, before the pod is read
	// again: the runtime may lose the observed state. Calls for one pod come from one goroutine,
	// after waiters have received the status, and must return soon. The status must not be
	// modified. Default: not called.
	Observed func(ctx context.Context, status *runtime.PodStatus)
	// Changed is called when a pod's status differs from the last one passed on, and when a pod
	// becomes readable again. status is the newest one and must not be modified. A status without sandboxes
	// and containers means that the runtime no longer has the pod.
	//
	// Calls for one pod come from one goroutine, one after the other, and for different pods
	// concurrently. They must not block: the pod is not inspected again before the call returns.
	// Default: not called.
	Changed func(uid types.UID, status *runtime.PodStatus)
	// AvailableChanged is called when the runtime becomes unavailable, with the error, and with nil when it is
	// available and all pods were listed; the first call follows soon after Run's start. Calls come from one
	// goroutine and must not block. Default: not called.
	AvailableChanged func(err error)
	// Unreadable is called with the error of each read of a pod that fails. It must not block. Default: not called.
	Unreadable func(uid types.UID, err error)
	// Busy reports whether a pod is in transition: being started or stopped. Without
	// events, the pods are listed at least once a second while a pod is in transition. It must not block.
	// Default: no pod is in transition.
	Busy func(uid types.UID) bool

	// Log receives a line when the runtime becomes unavailable or available, when the event stream is used or lost, and
	// when a pod becomes unreadable or readable. Default: no log.
	Log logr.Logger
}

const (
	// These are pauses between lists while no events are streamed: minRelist after a change, busyRelist the maximum
	// while a pod is in transition, and quietRelist the maximum at other times.
	minRelist, busyRelist, quietRelist = 20 * time.Millisecond, time.Second, 10 * time.Second
	// minRetry is the first pause after a failure. Each further failure in a row doubles it, up to
	// maxRetry.
	minRetry, maxRetry = 100 * time.Millisecond, 5 * time.Second
	// readTimeout is the timeout for inspecting one pod, and for listing all pods.
	readTimeout = 2 * time.Minute
	// maxInspections limits the concurrent inspections that are younger than slowInspection.
	maxInspections = 8
	// slowInspection is how long an inspection counts towards maxInspections.
	slowInspection = 100 * time.Millisecond
	// maxHold is how long an event may wait for the work's end on its pod.
	maxHold = time.Second
	// settleTime is how long a stream must be open until the Watcher relies on it.
	settleTime = time.Second
	// firstReopen is the first pause before a lost stream is opened again, while the runtime answers
	// otherwise. It doubles up to maxReopen while no stream brings an event.
	firstReopen = 50 * time.Millisecond
	maxReopen   = 10 * time.Second
	// listPauseFactor is the minimum pause after a list, as a multiple for its
	// duration.
	listPauseFactor = 4
	// resumePatience is how long inspecting changed pods may delay the report that the runtime is
	// available again.
	resumePatience = time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Reader == nil {
		return c, errors.New("pleg: Config.Reader is missing")
	}
	if err := c.Owner.Validate(); err != nil {
		return c, fmt.Errorf("pleg: Config.Owner: %w", err)
	}
	if c.EventRelist < 0 {
		return c, fmt.Errorf("EventRelist is negative: %v", c.EventRelist)
	}
	c.EventRelist = cmp.Or(c.EventRelist, 5*time.Minute)
	if c.Cache == nil {
		c.Cache = &runtime.Cache{}
	}
	if c.Observed == nil {
		c.Observed = func(context.Context, *runtime.PodStatus) {}
	}
	if c.Changed == nil {
		c.Changed = func(types.UID, *runtime.PodStatus) {}
	}
	if c.AvailableChanged == nil {
		c.AvailableChanged = func(error) {}
	}
	if c.Unreadable == nil {
		c.Unreadable = func(types.UID, error) {}
	}
	if c.Busy == nil {
		c.Busy = func(types.UID) bool { return false }
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	return c, nil
}

// Settings configures how an agent detects changes in its runtime. A zero field means its default.
type Settings struct {
	// EventRelist is the time between full lists while the runtime streams events.
	// Default 5 min.
	EventRelist time.Duration
	// Observer observes lists and inspections. Default: none.
	Observer Observer
}

// Observer observes an agent's lists and inspections, for metrics and traces. Its methods are
// called concurrently, without a lock held, and must return soon. Embed NopObserver to implement
// only some methods.
//
// Use podworkers.Observer and syncpod.Observer for the work on pods, and image.Observer for pulls.
// An agent.Config has this observer as Watch.Observer; see syncpod.Observer for the others.
type Observer interface {
	// Listed is called after all pods were listed, with the pod count and the duration.
	Listed(pods int, took time.Duration, err error)
	// Inspected is called after a pod's inspection.
	Inspected(uid types.UID, took time.Duration, err error)
	// Streaming is called when the event stream becomes reliable (true) or unreliable (false).
	Streaming(on bool)
}

// NopObserver is an Observer that does nothing.
type NopObserver struct{}

// Listed does nothing.
func (NopObserver) Listed(int, time.Duration, error) {}

// Inspected does nothing.
func (NopObserver) Inspected(types.UID, time.Duration, error) {}

// Streaming does nothing.
func (NopObserver) Streaming(bool) {}
