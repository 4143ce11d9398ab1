package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod/internal/rotate"
)

// collectors periodically remove what is no longer needed: dead containers, images, and old logs.
type collectors struct {
	config  *Config
	notices notices
	watcher *pleg.Watcher
	rotator *rotate.Rotator // nil if logs are not rotated
	states  gcStates
	// collecting is held while a Collector is called.
	collecting sync.Mutex
}

// start starts them; they run until ctx ends.
func (c *collectors) start(ctx context.Context, children *sync.WaitGroup) {
	for _, one := range c.config.Collectors {
		children.Go(func() { c.collect(ctx, one) })
	}
	if c.config.ImageCollector != nil {
		children.Go(func() { c.collectImages(ctx) })
	}
	if c.rotator != nil {
		children.Go(func() { c.rotateLogs(ctx) })
	}
}

// collect calls a collector until ctx ends.
func (c *collectors) collect(ctx context.Context, one Collector) {
	c.every(ctx, c.config.CollectInterval, func() {
		if err := c.collectOnce(ctx, one); err != nil && ctx.Err() == nil {
			c.config.Log.Error(err, "not collected")
		}
	})
}

func (c *collectors) collectOnce(ctx context.Context, one Collector) error {
	c.collecting.Lock()
	defer c.collecting.Unlock()
	return one.Collect(ctx, c.states)
}

// collectImages has images removed until ctx ends.
func (c *collectors) collectImages(ctx context.Context) {
	c.every(ctx, c.config.ImageInterval, func() {
		err := c.config.ImageCollector.Collect(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.config.Log.Error(err, "images not collected")
		reason := "ImageGCFailed"
		if errors.Is(err, image.ErrDiskFull) {
			reason = "FreeDiskSpaceFailed"
		}
		c.notices.nodeEvent(reason, err.Error())
	})
}

// rotateLogs has logs rotated until ctx ends.
func (c *collectors) rotateLogs(ctx context.Context) {
	c.every(ctx, c.config.LogInterval, func() {
		if err := c.rotator.Rotate(ctx); err != nil && ctx.Err() == nil {
			c.config.Log.Error(err, "logs not rotated")
		}
	})
}

// every calls do at intervals until ctx ends, except while the runtime is unavailable.
func (c *collectors) every(ctx context.Context, interval time.Duration, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if _, err := c.watcher.Available(); err == nil {
			do()
		}
	}
}

// gcStates are the [PodStates] of all pods.
type gcStates struct {
	workers *podworkers.Workers
	sources *feeds
}

func (s gcStates) RuntimeShouldBeRemoved(pod types.UID) bool {
	return s.isCertain(pod) && s.workers.State(pod).RuntimeShouldBeRemoved
}

func (s gcStates) ContentShouldBeRemoved(pod types.UID) bool {
	return s.isCertain(pod) && s.workers.State(pod).ContentShouldBeRemoved
}

// isCertain reports whether what the workers say of a pod can be relied on: they know it and do not
// remove it to make room for a new pod with its UID, or no source wants it.
func (s gcStates) isCertain(uid types.UID) bool {
	state := s.workers.State(uid)
	return state.Known && state.Phase <= podworkers.Finished || s.sources.unwanted(uid)
}
