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
// At most one stop of a sandbox is in flight; runtimes do not take two
// (openshift/origin #18424).
func (r *Runner) Stop(ctx context.Context, id string) error {
	if id == "" {
		return errors.New("sandbox: Stop: the sandbox ID is empty")
	}
	done, err := r.stops.take(ctx, id)
	if err != nil {
		return fmt.Errorf("stop sandbox %s: wait for another stop: %w", id, cri.Classify(err))
	}
	defer done()
	err = r.retry(ctx, func() error {
		_, err := r.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
		return err
	})
	if err != nil {
		return fmt.Errorf("stop sandbox %s: %w", id, err)
	}
	return nil
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
	for pause := r.config.FirstRetry; ; pause = min(2*pause, r.config.MaxRetry) {
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

// turns lets one at a time have a key. The zero value is ready to use.
type turns struct {
	mu    sync.Mutex
	taken map[string]chan struct{} // closed when the key is free again
}

// take waits until nobody has the key, and takes it.
func (t *turns) take(ctx context.Context, key string) (done func(), err error) {
	for {
		free := t.tryTake(key)
		if free == nil {
			return func() { t.free(key) }, nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryTake takes the key, or returns what is closed when it is free.
func (t *turns) tryTake(key string) (free <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if free, ok := t.taken[key]; ok {
		return free
	}
	if t.taken == nil {
		t.taken = map[string]chan struct{}{}
	}
	t.taken[key] = make(chan struct{})
	return nil
}

func (t *turns) free(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.taken[key])
	delete(t.taken, key)
}
