package loop

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/image"
)

// collect calls a collector until ctx ends.
func (l *Loop) collect(ctx context.Context, c Collector) {
	l.every(ctx, l.config.CollectInterval, func() {
		if err := l.collectOnce(ctx, c); err != nil && ctx.Err() == nil {
			l.config.Log.Error(err, "not collected")
		}
	})
}

func (l *Loop) collectOnce(ctx context.Context, c Collector) error {
	l.collecting.Lock()
	defer l.collecting.Unlock()
	return c.Collect(ctx, gcStates{l})
}

// collectImages has images removed until ctx ends.
func (l *Loop) collectImages(ctx context.Context) {
	l.every(ctx, l.config.ImageInterval, func() {
		err := l.config.ImageCollector.Collect(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		l.config.Log.Error(err, "images not collected")
		reason := "ImageGCFailed"
		if errors.Is(err, image.ErrDiskFull) {
			reason = "FreeDiskSpaceFailed"
		}
		l.nodeEvent(reason, err.Error())
	})
}

// rotateLogs has logs rotated until ctx ends.
func (l *Loop) rotateLogs(ctx context.Context) {
	l.every(ctx, l.config.LogInterval, func() {
		if err := l.rotator.Rotate(ctx); err != nil && ctx.Err() == nil {
			l.config.Log.Error(err, "logs not rotated")
		}
	})
}

// nodeEvent records a warning about the node, which it names as a kubelet does.
func (l *Loop) nodeEvent(reason, message string) {
	if l.config.Sync.Events == nil || l.config.NodeName == "" {
		return
	}
	node := &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: l.config.NodeName, UID: types.UID(l.config.NodeName)}
	l.config.Sync.Events.Eventf(node, v1.EventTypeWarning, reason, "%s", message)
}

// every calls do at intervals until ctx ends, but not while the runtime is away.
func (l *Loop) every(ctx context.Context, interval time.Duration, do func()) {
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if _, err := l.watcher.Available(); err == nil {
			do()
		}
	}
}

// gcStates are the [PodStates] of all pods.
type gcStates struct{ *Loop }

func (l gcStates) RuntimeShouldBeRemoved(pod types.UID) bool {
	return l.isCertain(pod) && l.workers.State(pod).RuntimeShouldBeRemoved
}

func (l gcStates) ContentShouldBeRemoved(pod types.UID) bool {
	return l.isCertain(pod) && l.workers.State(pod).ContentShouldBeRemoved
}

// isCertain reports whether what the workers say of a pod can be relied on: they know it and do not
// remove it to make room for a new pod with its UID, or no source wants it.
func (l *Loop) isCertain(uid types.UID) bool {
	state := l.workers.State(uid)
	return state.Known && state.Phase <= podworkers.Finished || l.unwanted(uid)
}
