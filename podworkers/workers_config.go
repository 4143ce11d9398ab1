package podworkers

import (
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

// Config says what Workers work with. Every wait but AbandonAfter and those between tries
// to remove a pod has up to half of it added at random, so that pods that failed together
// do not come back together. A time that an error or a result names is kept as it is.
type Config struct {
	// Syncer does the work. Required.
	Syncer Syncer
	// Status is asked for the status of a pod before each call of the Syncer, newer
	// than the end of the call before. Nil hands a nil status to the Syncer, which
	// then has to look for itself.
	Status StatusSource
	// MaxConcurrent is how many calls of SyncPod may run at a time, those that were
	// abandoned not counted; further pods wait in the order in which they have
	// work. Work that stops pods and cleans up never waits. Zero means any number.
	MaxConcurrent int
	// AbandonAfter is how long work may take to return once it was cancelled
	// because the pod is to stop, or to stop sooner. After that the pod goes on
	// without it. Zero means 1 s.
	AbandonAfter time.Duration
	// RetryInitial is the wait after a first failure whose error says neither when
	// to try again (RetryError) nor that it will soon be gone (TemporaryError).
	// Each further failure in a row doubles it, up to RetryMax, or to 1 min for the removal of
	// a pod. Zero means 2 s.
	RetryInitial time.Duration
	// RetryMax is the longest such wait. Zero means 30 s, or
	// RetryInitial if that is longer.
	RetryMax time.Duration
	// RetryTransient is the wait after a failure that is likely to be gone soon.
	// Zero means 1 s.
	RetryTransient time.Duration
	// ResyncInterval is how long after its last SyncPod a pod is looked at again
	// although nothing was heard of it. Zero means 1 min.
	ResyncInterval time.Duration
	// Observer receives events. Default: none.
	Observer Observer
	// Trace is called before each call of the Syncer, which gets the context that it
	// returns: one made of ctx. All that is done in the call has a context made of that,
	// calls of the runtime among it. end is called with the error of the call when that
	// has returned. Both must return soon, and neither may be nil. Default: nobody traces.
	Trace func(ctx context.Context, w Work) (traced context.Context, end func(error))
	// Log gets one line for each change of a pod's phase, each failure and each
	// abandoned work. The zero Logger is silent.
	Log logr.Logger
}

// withDefaults returns c with every field set, or an error that names the field
// that cannot be.
func (c Config) withDefaults() (Config, error) {
	if c.Syncer == nil {
		return c, errors.New("podworkers: Config.Syncer is required")
	}
	if c.MaxConcurrent < 0 {
		return c, fmt.Errorf("podworkers: Config.MaxConcurrent is %d, want 0 or more", c.MaxConcurrent)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		zero  time.Duration
	}{
		{"AbandonAfter", &c.AbandonAfter, defaultAbandonAfter},
		{"RetryInitial", &c.RetryInitial, defaultRetryInitial},
		{"RetryMax", &c.RetryMax, max(defaultRetryMax, c.RetryInitial)},
		{"RetryTransient", &c.RetryTransient, defaultRetryTransient},
		{"ResyncInterval", &c.ResyncInterval, defaultResyncInterval},
	} {
		if *d.value < 0 {
			return c, fmt.Errorf("podworkers: Config.%s is %v, want 0 or more", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.zero
		}
	}
	if c.RetryMax < c.RetryInitial {
		return c, fmt.Errorf("podworkers: Config.RetryMax is %v, shorter than RetryInitial, %v", c.RetryMax, c.RetryInitial)
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	return c, nil
}
