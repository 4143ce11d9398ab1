package sandbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// Stop stops a sandbox, and with it releases its network. A sandbox that is not
// there has been stopped. Stop tries again, with growing pauses, until it has
// succeeded or ctx ends: a network that was not released is lost
// (containerd #5768). Only a refusal that no repetition can change is returned at
// once.
//
// At most one StopPodSandbox of a sandbox is in flight; runtimes do not take two
// (openshift/origin #18424). A Stop that finds one in flight takes its result. One
// that was begun goes on when the contexts of all who wait for it have ended, until
// the runtime answers or RunnerConfig.StopTimeout is over; a runtime that works on
// even then may be given a second one. See [Runner.Wait] and [Runner.CancelPending].
func (r *Runner) Stop(ctx context.Context, id string) error {
	if id == "" {
		return errors.New("sandbox: Stop: the sandbox ID is empty")
	}
	if err := r.retry(ctx, func() error { return r.stopOnce(ctx, id) }); err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
}

func (r *Runner) stopOnce(ctx context.Context, id string) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f := r.stops.join(id, func() error {
		ctx, cancel := r.detach(ctx, r.config.StopTimeout)
		defer cancel()
		_, err := r.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		return err
	})
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wait returns when no StopPodSandbox is in flight. CancelPending ends those that are.
func (r *Runner) Wait() {
	for f := r.stops.any(); f != nil; f = r.stops.any() {
		<-f.done
	}
}

// CancelPending ends what goes on although the contexts of its callers have ended: each
// StopPodSandbox in flight, and the removal of what a failed Create left behind. It
// waits for nothing. What is begun after it goes on.
func (r *Runner) CancelPending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endBase()
	r.base, r.endBase = context.WithCancel(context.Background())
}

// detach returns a context that goes on when ctx has ended, until the timeout is over
// or CancelPending is called.
func (r *Runner) detach(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	r.mu.Lock()
	defer r.mu.Unlock()
	release := context.AfterFunc(r.base, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// Remove stops a sandbox as Stop does, even one that looks stopped, and only then
// removes it and the containers in it. A sandbox that is not there has been
// removed. It tries again as Stop does.
func (r *Runner) Remove(ctx context.Context, id string) error {
	if err := r.Stop(ctx, id); err != nil {
		return err
	}
	err := r.retry(ctx, func() error {
		_, err := r.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
		return err
	})
	if err != nil {
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	return nil
}

// retry calls until it succeeds, finds nothing to do, is refused for good, or ctx
// ends.
func (r *Runner) retry(ctx context.Context, call func() error) error {
	for pause := r.config.InitialRetry; ; pause = min(2*pause, r.config.MaxRetry) {
		err := cri.IgnoreNotFound(call())
		if err == nil || final(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// final reports whether no repetition changes the answer.
func final(err error) bool {
	return errors.Is(err, cri.ErrUnimplemented) || errors.Is(err, cri.ErrInvalid) || errors.Is(err, cri.ErrPermission)
}

// listPod lists the pod's sandboxes that belong to the agent.
func (r *Runner) listPod(ctx context.Context, pod types.UID) ([]*runtimeapi.PodSandbox, error) {
	selector := map[string]string{runtime.LabelPodUID: string(pod)}
	maps.Copy(selector, r.config.Owner.Selector())
	resp, err := r.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", cri.Classify(err))
	}
	var own []*runtimeapi.PodSandbox
	for _, s := range resp.GetItems() {
		if r.config.Owner.Owns(s.GetLabels()) && s.GetMetadata().GetUid() == string(pod) {
			own = append(own, s)
		}
	}
	return own, nil
}

// flights are calls under way, one at a time for a key. The zero value is ready to
// use.
type flights struct {
	mu sync.Mutex
	m  map[string]*flight
}

// flight is one call. err is set when done is closed.
type flight struct {
	done chan struct{}
	err  error
}

// join returns the key's call, which it begins if none is under way.
func (fs *flights) join(key string, call func() error) *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f := fs.m[key]; f != nil {
		return f
	}
	if fs.m == nil {
		fs.m = map[string]*flight{}
	}
	f := &flight{done: make(chan struct{})}
	fs.m[key] = f
	go func() {
		f.err = call()
		fs.mu.Lock()
		defer fs.mu.Unlock()
		delete(fs.m, key)
		close(f.done)
	}()
	return f
}

// any returns one of the calls under way, nil if there is none.
func (fs *flights) any() *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.m {
		return f
	}
	return nil
}
