package loop

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
)

// statuses are what workers get to know of pods. While the runtime is away they wait
// for it: only the watcher asks whether it is back, however many pods there are, and
// all of them go on the moment it is.
type statuses struct{ *Loop }

func (l statuses) Fresh(ctx context.Context, uid types.UID, since time.Time) (*runtime.PodStatus, error) {
	for {
		status, err := l.watcher.Fresh(ctx, uid, since)
		if _, away := errors.AsType[*pleg.AwayError](err); !away {
			return status, err
		}
		select {
		case <-l.awaitRuntime():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// awaitRuntime returns a channel that is closed when the runtime is there.
func (l *Loop) awaitRuntime() <-chan struct{} {
	back := l.runtime.shut()
	if _, err := l.watcher.Available(); err == nil {
		l.runtime.open()
	}
	return back
}

// availableChanged is told by the watcher when the runtime goes away or is there.
func (l *Loop) availableChanged(err error) {
	if err != nil {
		l.runtime.shut()
		return
	}
	l.runtime.open()
	l.listed.Store(true)
	l.news.raise()
	l.tidy.raise()
}

// door is open or shut. The zero door is open.
type door struct {
	mu   sync.Mutex
	back chan struct{} // closed when the door opens; nil while it is open
}

func (d *door) shut() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.back == nil {
		d.back = make(chan struct{})
	}
	return d.back
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.back != nil {
		close(d.back)
	}
	d.back = nil
}

// flag wakes one goroutine. Raised several times before it is seen, it wakes it
// once.
type flag chan struct{}

func (f flag) raise() {
	select {
	case f <- struct{}{}:
	default:
	}
}
