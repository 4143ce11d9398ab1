package run

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

// Stop stops a sandbox and releases its network. A sandbox that the runtime does not have counts as stopped. Stop
// retries with a back-off until it succeeds or ctx ends, because a network that is not released is lost
// (containerd #5768). It returns errors that no retry can change (unimplemented, invalid, no permission) at once.
//
// At most one StopPodSandbox is in flight for a sandbox, because runtimes do not support two (openshift/origin
// #18424). A Stop that finds a call in flight waits for its result. A call continues after the contexts of all callers
// have ended, until the runtime answers or Config.StopTimeout passes. If the runtime still works on it then, it may
// get a second one. See [Runner.Wait] and [Runner.CancelPending].
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

// Wait returns when no StopPodSandbox is in flight. CancelPending cancels these calls.
func (r *Runner) Wait() {
	for f := r.stops.any(); f != nil; f = r.stops.any() {
		<-f.done
	}
}

// CancelPending cancels the calls that continue after their callers' contexts have ended: each StopPodSandbox in
// flight, and the cleanup after a failed Create. It does not wait, and has no effect on later calls.
func (r *Runner) CancelPending() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endBase()
	r.base, r.endBase = context.WithCancel(context.Background())
}

// detach returns a context that continues after ctx ends, until the timeout passes or CancelPending is
// called.
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

// Remove stops a sandbox as Stop does, even if its state is not ready, and then removes it with its containers. A
// sandbox that the runtime does not have counts as removed. Remove retries as Stop does.
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

// retry repeats call until it succeeds, returns NotFound or a final error, or ctx ends.
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

// final reports whether an error is permanent, so that a retry is useless.
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

// flights are the calls in flight, one at a time for each key. The zero value is ready to use.
type flights struct {
	mu sync.Mutex
	m  map[string]*flight
}

// flight is one call. err is set when done is closed.
type flight struct {
	done chan struct{}
	err  error
}

// join returns the call in flight of the key, and starts one if there is none.
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

// any returns a call in flight, nil if there is none.
func (fs *flights) any() *flight {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, f := range fs.m {
		return f
	}
	return nil
}
