package podworkers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// drain is the stopping of all pods. A nil drain is none. Workers.mu guards left; the callers
// of Drain read over, and err once over is closed, without it.
type drain struct {
	left map[types.UID]struct{}
	err  error // the reason of its end
	over chan struct{}
}

// Drain stops all pods, as stop requests, and waits until all of them have finished; stop.ID is
// ignored. From the call on, new pods are refused with ErrDraining. If ctx ends first, the error has the
// number of pods that are left and the reason; the pods continue to stop, and the caller may
// call Drain again to wait for them. Pods only stop during Run; ErrStopped means that Run ended first.
func (w *Workers) Drain(ctx context.Context, stop StopRequest) error {
	d, err := w.beginDrain(stop)
	if err != nil {
		return err
	}
	select {
	case <-d.over:
		return d.err
	case <-ctx.Done():
	}
	left, failed := w.undrained(d)
	if left == 0 {
		<-d.over
		return d.err
	}
	return stillStopping(fmt.Sprintf("%d pods are", left), context.Cause(ctx), failed)
}

// undrained returns how many pods are still stopping, and the error of the first of
// them whose last work failed.
func (w *Workers) undrained(d *drain) (left int, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.left)) {
		if p := w.scheduler.pods[uid]; p.err != nil {
			return len(d.left), fmt.Errorf("pod %s: %w", uid, p.err)
		}
	}
	return len(d.left), nil
}

func (w *Workers) beginDrain(stop StopRequest) (*drain, error) {
	then := change{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	return w.scheduler.beginDrain(stop, &then)
}

// beginDrain stops all pods. It goes on with a drain that has not ended.
func (s *scheduler) beginDrain(stop StopRequest, then *change) (*drain, error) {
	if s.stage == stopping {
		return nil, ErrStopped
	}
	if s.drain == nil || s.drain.ended() {
		s.drain = &drain{left: map[types.UID]struct{}{}, over: make(chan struct{})}
	}
	for _, uid := range slices.Sorted(maps.Keys(s.pods)) {
		s.drain.add(s.pods[uid])
		s.stop(s.pods[uid], stop, then)
	}
	s.drain.check()
	return s.drain, nil
}

// stop stops one pod with its last definition. The Set refuses the update of a pod without a definition;
// such a pod is being stopped, or has finished.
func (s *scheduler) stop(p *worker, r StopRequest, then *change) {
	u := Update{Type: Kill, Pod: p.state.definition(), Stop: s.requests.add(&r, nil)}
	if e, err := s.set.Update(then.now, u); err == nil {
		s.followFor(p, p.uid, e, then)
	}
}

func (d *drain) add(p *worker) {
	if !p.state.over() {
		d.left[p.uid] = struct{}{}
	}
}

// finished records that a pod has no work left.
func (d *drain) finished(uid types.UID) {
	if d == nil {
		return
	}
	if _, ok := d.left[uid]; ok {
		delete(d.left, uid)
		d.check()
	}
}

func (d *drain) check() {
	if len(d.left) == 0 {
		d.end(nil)
	}
}

// end ends the draining, unless it has ended before.
func (d *drain) end(err error) {
	if d == nil || d.ended() {
		return
	}
	d.err = err
	close(d.over)
}

func (d *drain) ended() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}
