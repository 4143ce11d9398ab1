package podworkers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// drain is the stopping of all pods. A nil drain is none.
type drain struct {
	left map[types.UID]struct{}
	// err is why it ended; it is written before over is closed.
	err  error
	over chan struct{}
}

// Drain stops all pods, as stop says, and waits until all of them are cleaned up
// after; stop.ID is ignored. From now on new pods are refused with ErrDraining,
// also when Drain returns early because ctx is done: the pods stop all the same,
// and Drain may be called again to wait for them. The error says how many are
// left, and why. Pods only stop while Run is running; ErrStopped says that it
// ended first.
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

// undrained returns how many pods are still stopping, and what the last work of
// the first of them that fails has failed with.
func (w *Workers) undrained(d *drain) (left int, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, uid := range slices.Sorted(maps.Keys(d.left)) {
		if p := w.pods[uid]; p.err != nil {
			return len(d.left), fmt.Errorf("pod %s: %w", uid, p.err)
		}
	}
	return len(d.left), nil
}

func (w *Workers) beginDrain(stop StopRequest) (*drain, error) {
	then := followUp{now: time.Now()}
	w.mu.Lock()
	defer w.unlock(&then)
	if w.stage == stopping {
		return nil, ErrStopped
	}
	if w.drain == nil || w.drain.ended() {
		w.drain = &drain{left: map[types.UID]struct{}{}, over: make(chan struct{})}
	}
	d := w.drain
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		d.add(w.pods[uid])
		w.stop(w.pods[uid], stop, &then)
	}
	d.check()
	return d, nil
}

// stop asks for one pod to be stopped of which nothing new is known. One without
// a definition, which the Set does not take, is being stopped or has finished.
func (w *Workers) stop(p *worker, r StopRequest, then *followUp) {
	u := Update{Type: Kill, Pod: p.state.definition(), Stop: w.request(&r, nil)}
	if e, err := w.set.Update(then.now, u); err == nil {
		w.followUp(p, p.uid, e, then)
	}
}

func (d *drain) add(p *worker) {
	if !p.state.over() {
		d.left[p.uid] = struct{}{}
	}
}

// finished tells that nothing is left to do for a pod.
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
