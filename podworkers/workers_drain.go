package podworkers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// drain is the stop of all pods, nil if there is none. Workers.mu guards pending. The callers
// of Drain read done without the lock, and also err once done is closed.
type drain struct {
	pending map[types.UID]struct{}
	err     error // its end's reason
	done    chan struct{}
}

// Drain stops all pods as stop requests, and waits until all of them have finished. stop.ID is
// ignored. From the call on, new pods are rejected with ErrDraining. If ctx ends first, the error has the
// number of the remaining pods and the reason. The pods continue to stop, and the caller may
// call Drain again to wait for them. Pods stop only during Run; ErrStopped means that Run ended first.
func (w *Workers) Drain(ctx context.Context, stop StopRequest) error {
	d, err := w.beginDrain(stop)
	if err != nil {
		return err
	}
	select {
	case <-d.done:
		return d.err
	case <-ctx.Done():
	}
	left, failed := w.undrained(d)
	if left == 0 {
		<-d.done
		return d.err
	}
	return stillStopping(fmt.Sprintf("%d pods are", left), context.Cause(ctx), failed)
}

// undrained returns the number of pods that are still stopping, and the first error among their last
// calls.
func (w *Workers) undrained(d *drain) (left int, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.pending)) {
		if p := w.scheduler.pods[uid]; p.err != nil {
			return len(d.pending), fmt.Errorf("pod %s: %w", uid, p.err)
		}
	}
	return len(d.pending), nil
}

func (w *Workers) beginDrain(stop StopRequest) (*drain, error) {
	changes := changes{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&changes)
	return w.scheduler.beginDrain(stop, &changes)
}

// beginDrain stops all pods. If a drain is in progress, it continues that one.
func (s *scheduler) beginDrain(stop StopRequest, changes *changes) (*drain, error) {
	if s.stage == stopping {
		return nil, ErrStopped
	}
	if s.drain == nil || s.drain.ended() {
		s.drain = &drain{pending: map[types.UID]struct{}{}, done: make(chan struct{})}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		s.drain.add(s.pods[uid])
		s.stop(s.pods[uid], stop, changes)
	}
	s.drain.check()
	return s.drain, nil
}

// stop stops one pod with its last definition. The Set rejects an update without a definition, which is harmless:
// such a pod is being stopped, or has finished.
func (s *scheduler) stop(p *worker, r StopRequest, changes *changes) {
	u := Update{Type: Kill, Pod: p.state.definition(), Stop: s.requests.add(&r, nil)}
	if e, err := s.set.Update(changes.now, u); err == nil {
		s.applyTo(p, p.uid, e, changes)
	}
}

func (d *drain) add(p *worker) {
	if !p.state.isFinished() {
		d.pending[p.uid] = struct{}{}
	}
}

// finished records that a pod has no work left.
func (d *drain) finished(uid types.UID) {
	if d == nil {
		return
	}
	if _, ok := d.pending[uid]; ok {
		delete(d.pending, uid)
		d.check()
	}
}

func (d *drain) check() {
	if len(d.pending) == 0 {
		d.end(nil)
	}
}

// end ends the drain. It does nothing if the drain has ended before.
func (d *drain) end(err error) {
	if d == nil || d.ended() {
		return
	}
	d.err = err
	close(d.done)
}

func (d *drain) ended() bool {
	select {
	case <-d.done:
		return true
	default:
		return false
	}
}
