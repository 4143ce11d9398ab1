package podworkers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

const (
	defaultAbandonAfter   = time.Second
	defaultRetryInitial   = 2 * time.Second
	defaultRetryMax       = 30 * time.Second
	defaultRetryTransient = time.Second
	defaultResyncInterval = time.Minute
)

// Config configures Workers. A random part of up to half of its length is added to each wait, so that pods that
// failed together are not retried together. Exceptions are the waits between attempts to remove a
// pod, and times that an error or a Result specifies.
//
// Failed work is retried after RetryInitial. Each further failure in a row doubles the wait, up to RetryMax, or up to 1 min
// for a pod's removal. After a temporary error (see Syncer) the wait is 1 s. A call that was cancelled because the pod must stop has 1 s
// to return; then it is abandoned, and the pod gets other work.
type Config struct {
	// Syncer does the work. Required.
	Syncer Syncer
	// Status returns a pod's status before each call to the Syncer. That status is newer than the
	// previous call's end. If Status is nil, the Syncer gets a nil status and must inspect the pod
	// itself.
	Status StatusSource
	// MaxConcurrent limits the concurrent calls to SyncPod, not counting abandoned ones. Further pods wait in a
	// queue. Work that stops, cleans up or removes pods never waits. Zero means no limit.
	MaxConcurrent int
	// ResyncInterval is the longest time between two calls to SyncPod for a pod. Zero means 1 min.
	ResyncInterval time.Duration
	// Tracker follows the pods for the program. Default: none.
	Tracker Tracker
	// Observer receives events, for metrics. Default: none.
	Observer Observer
	// Trace is called before each call to the Syncer, and returns the call's context, derived from ctx. The contexts of
	// all steps of the call, such as calls to the runtime, are derived from it. After the call, the workers call end with
	// its error. Both functions must return soon; end must not be nil. Default: no tracing.
	Trace func(ctx context.Context, w Work) (traced context.Context, end func(error))
	// Log records each change to a pod's phase, each failure and each abandoned work. The zero Logger
	// is silent.
	Log logr.Logger

	// RetryInitial is the wait after the first failure of work; each further failure in a row doubles it, up to RetryMax.
	// Zero means 2 s, and 30 s or RetryInitial if that is longer.
	RetryInitial, RetryMax time.Duration

	// abandonAfter is the time within which a call must return that was cancelled because the pod must stop, or stop sooner.
	// retryTransient is the wait after a temporary error. Tests change them.
	abandonAfter, retryTransient time.Duration
}

// withDefaults returns c with all defaults set, or an error that names the invalid field.
func (c Config) withDefaults() (Config, error) {
	if c.Syncer == nil {
		return c, errors.New("podworkers: Config.Syncer is required")
	}
	if c.MaxConcurrent < 0 {
		return c, fmt.Errorf("podworkers: Config.MaxConcurrent is %d, want 0 or more", c.MaxConcurrent)
	}
	if c.ResyncInterval < 0 {
		return c, fmt.Errorf("podworkers: Config.ResyncInterval is %v, want 0 or more", c.ResyncInterval)
	}
	if c.RetryInitial < 0 {
		return c, fmt.Errorf("podworkers: Config.RetryInitial is %v, want 0 or more", c.RetryInitial)
	}
	if c.RetryMax < 0 || c.RetryMax > 0 && c.RetryMax < c.RetryInitial {
		return c, fmt.Errorf("podworkers: Config.RetryMax is %v, want 0, or RetryInitial or more", c.RetryMax)
	}
	c.ResyncInterval = cmp.Or(c.ResyncInterval, defaultResyncInterval)
	c.abandonAfter = cmp.Or(c.abandonAfter, defaultAbandonAfter)
	c.RetryInitial = cmp.Or(c.RetryInitial, defaultRetryInitial)
	c.RetryMax = cmp.Or(c.RetryMax, max(defaultRetryMax, c.RetryInitial))
	c.retryTransient = cmp.Or(c.retryTransient, defaultRetryTransient)
	if c.Tracker == nil {
		c.Tracker = noTracker{}
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	return c, nil
}
