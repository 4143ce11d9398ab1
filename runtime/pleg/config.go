package pleg

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Reader reads pods from the runtime. A *cri.Reader does. Errors have a class of
// package cri.
type Reader interface {
	List(ctx context.Context) ([]*cri.ListedPod, error)
	Inspect(ctx context.Context, listed *cri.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error)
	PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error)
}

// Config says what a Watcher works with. A zero field means its default.
type Config struct {
	// Reader reads. Required.
	Reader Reader
	// Events streams the runtime's container events. A *cri.Client implements it for all runtimes;
	// the Watcher detects that a runtime has no events. Nil means that only lists are used.
	Events cri.EventStreamer
	// Owner is the owner whose events are used. It should be the Reader's. Default: the owner of
	// of what podsync made.
	Owner cri.Owner
	// Cache is filled. Nothing else should write to it. Default one of the
	// Watcher's own.
	Cache *runtime.Cache

	// Observed is called with each status that was read, changed or not, before the pod is read
	// again: the runtime may lose the observed state. Calls for one pod come from one goroutine,
	// after waiters have received the status, and must return soon. The status must not be
	// modified. Default: not called.
	Observed func(ctx context.Context, status *runtime.PodStatus)
	// Changed is called when a pod's status differs from the last one passed on, and when a pod
	// becomes readable again. status is the newest one and must not be modified; without sandboxes
	// and containers, the pod is gone.
	//
	// Calls for one pod come from one goroutine, one after the other, and for different pods
	// concurrently. They must not block: the pod is not inspected again before the call returns.
	// Default: not called.
	Changed func(uid types.UID, status *runtime.PodStatus)
	// AvailableChanged is called when the runtime becomes unavailable, with the error, and with nil
	// when it is available and all pods were listed; first soon after the start of Run. Calls come
	// from one goroutine and must not block. Default: not called.
	AvailableChanged func(err error)
	// Busy reports whether a pod is in transition: being started or stopped. Where
	// there are no events, all pods are listed at least every second while any pod
	// is. It must not wait for anything. Default: no pod is.
	Busy func(uid types.UID) bool

	// EventRelist is the time between lists of all pods while events are streamed.
	// Default 5 min.
	EventRelist time.Duration
	// minRelist, busyRelist and quietRelist are the pauses between lists while no
	// events are streamed: after a change, at most while a pod is in transition,
	// and at most. Defaults 20 ms, 1 s and 10 s.
	minRelist, busyRelist, quietRelist time.Duration
	// MinRetry is the first pause after a failure. Each further failure in a row doubles it, up to
	// maxRetry. Defaults 100 ms and 5 s.
	MinRetry time.Duration
	maxRetry time.Duration
	// lookTimeout bounds one look at a pod and one list of all. Default 2 min.
	lookTimeout time.Duration
	// parallel is how many looks may run at a time that have not taken 100 ms yet.
	// Default 8.
	parallel int

	// Observer is notified of the Watcher's work. Default: none.
	Observer Observer
	// Log receives a line when the runtime becomes unavailable or available, when events start
	// and cease to be heard, and when a pod cannot be read and can be again.
	// Default silent.
	Log logr.Logger
}

// Constants that need no configuration.
const (
	// slowLook is how long an inspection counts towards Parallel.
	slowLook = 100 * time.Millisecond
	// eventHold is how long an event may wait for the end of the work on its pod.
	eventHold = time.Second
	// settleTime is how long a stream has to be open until it is relied on.
	settleTime = time.Second
	// maxReopen bounds the pause before a lost stream is opened again, while the
	// runtime answers otherwise.
	maxReopen = 10 * time.Second
	// listCost is how many times what a list took is left alone after it.
	listCost = 4
	// resumePatience is how long inspections of changed pods may delay the report that the runtime
	// is available again.
	resumePatience = time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Reader == nil {
		return c, errors.New("pleg: Config.Reader is missing")
	}
	if err := c.Owner.Validate(); err != nil {
		return c, fmt.Errorf("pleg: Config.Owner: %w", err)
	}
	for _, d := range []struct {
		name  string
		field *time.Duration
		def   time.Duration
	}{
		{"EventRelist", &c.EventRelist, 5 * time.Minute},
		{"MinRelist", &c.minRelist, 20 * time.Millisecond},
		{"BusyRelist", &c.busyRelist, max(time.Second, c.minRelist)},
		{"QuietRelist", &c.quietRelist, max(10*time.Second, c.busyRelist)},
		{"MinRetry", &c.MinRetry, 100 * time.Millisecond},
		{"MaxRetry", &c.maxRetry, max(5*time.Second, c.MinRetry)},
		{"LookTimeout", &c.lookTimeout, 2 * time.Minute},
	} {
		if *d.field < 0 {
			return c, fmt.Errorf("pleg: Config.%s is negative: %v", d.name, *d.field)
		}
		if *d.field == 0 {
			*d.field = d.def
		}
	}
	return c.withoutNils()
}

func (c Config) withoutNils() (Config, error) {
	switch {
	case c.parallel < 0:
		return c, fmt.Errorf("pleg: Config.Parallel is negative: %d", c.parallel)
	case c.minRelist > c.busyRelist || c.busyRelist > c.quietRelist:
		return c, fmt.Errorf("pleg: Config.MinRelist, BusyRelist and QuietRelist do not ascend: %v, %v, %v", c.minRelist, c.busyRelist, c.quietRelist)
	case c.MinRetry > c.maxRetry:
		return c, fmt.Errorf("pleg: Config.MinRetry %v is more than MaxRetry %v", c.MinRetry, c.maxRetry)
	}
	if c.parallel == 0 {
		c.parallel = 8
	}
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
	if c.Busy == nil {
		c.Busy = func(types.UID) bool { return false }
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	return c, nil
}
