package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Pod is a pod to stop.
type Pod struct {
	// Spec is the pod, nil if its spec is unknown.
	Spec *v1.Pod
	// Status is the pod in the runtime. Required.
	Status *runtime.PodStatus
	// Memory has the steps that were done before. Default: none, so a repeated stop repeats them.
	Memory Memory
	// Deadline is when the grace period expires. Default: PodGrace of Spec from now.
	Deadline time.Time
}

// setDefaults sets the defaults of missing fields.
func (p *Pod) setDefaults() error {
	if p.Status == nil {
		return errors.New("lifecycle: Pod.Status is missing")
	}
	if p.Memory == nil {
		p.Memory = new(ProcessMemory)
	}
	if p.Deadline.IsZero() {
		p.Deadline = time.Now().Add(PodGrace(p.Spec))
	}
	return nil
}

// rounds is how many times a pod is stopped again because a container or a sandbox became alive
// during the stop.
const rounds = 3

// errSpared keeps a sandbox running while a container in it could not be stopped yet.
var errSpared = errors.New("the sandbox is not stopped before its containers")

// KillPod stops every live container in the pod, including those that are missing in the spec, and then every
// sandbox. After a failure it stops the others nevertheless, and returns all errors joined. If a container could
// not be stopped and its grace period has not expired, its sandbox keeps running: the runtime would kill the
// container with it.
func (s *Stopper) KillPod(ctx context.Context, p Pod) error {
	if err := p.setDefaults(); err != nil {
		return err
	}
	containers, sandboxes := s.stopAll(ctx, p)
	return errors.Join(containers, sandboxes)
}

// TerminatePod stops the pod, calls inspect, and repeats that until nothing of the pod is alive.
// It reports whether something of the pod is still alive although every stop has succeeded.
func (s *Stopper) TerminatePod(ctx context.Context, p Pod, inspect func(context.Context) (*runtime.PodStatus, error)) (alive bool, err error) {
	if err := p.setDefaults(); err != nil {
		return false, err
	}
	for range rounds {
		containers, sandboxes := s.stopAll(ctx, p)
		if ctx.Err() != nil {
			return false, errors.Join(containers, sandboxes)
		}
		if p.Status, err = inspect(ctx); err != nil || sandboxes != nil {
			return false, errors.Join(containers, sandboxes, err)
		}
		if !p.Status.Live() {
			return false, nil // a container that could not be stopped has stopped with its sandbox
		}
		if containers != nil {
			return false, containers
		}
	}
	return true, nil
}

// stopAll returns the failures to stop containers, and to stop sandboxes. A sandbox that was
// spared is a failure.
func (s *Stopper) stopAll(ctx context.Context, p Pod) (containers, sandboxes error) {
	stopped, spared, err := s.stopContainers(ctx, p)
	if ctx.Err() != nil {
		return err, ctx.Err()
	}
	sandboxes = s.stopSandboxes(ctx, p.Status, func(id string) bool { return stopped[id] || spared[id] })
	if len(spared) > 0 {
		sandboxes = errors.Join(errSpared, sandboxes)
	}
	return err, sandboxes
}

// stopContainers returns the sandboxes that were stopped because the runtime did not stop a container in them, and
// the sandboxes that must keep running.
func (s *Stopper) stopContainers(ctx context.Context, p Pod) (stopped, spared map[string]bool, err error) {
	kills := p.kills()
	s.findHandlers(ctx, p, kills)
	var group sync.WaitGroup
	for _, k := range kills {
		group.Go(func() {
			k.err = s.stop(ctx, k)
			close(k.ended)
		})
	}
	group.Wait()
	return outcome(kills, time.Now())
}

// outcome returns the sandboxes that were stopped, those that must keep running, and the joined errors.
func outcome(kills []*kill, now time.Time) (stopped, spared map[string]bool, err error) {
	stopped, spared = map[string]bool{}, map[string]bool{}
	var errs []error
	for _, k := range kills {
		if k.sandboxStopped {
			stopped[k.sandbox] = true
		}
		if k.err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("container %s: %w", k.Status.Name, k.err))
		if now.Before(k.Deadline) {
			spared[k.sandbox] = true
		}
	}
	return stopped, spared, errors.Join(errs...)
}

// kills returns the stops of all live containers in the pod.
func (p *Pod) kills() []*kill {
	var kills []*kill
	all := targets(p.Spec, p.Status)
	for _, t := range all {
		kills = append(kills, &kill{
			Container: Container{
				Pod: p.Spec, Ref: t.ref, Status: t.status, Memory: p.Memory, IPs: p.Status.IPs(), Deadline: p.Deadline,
				Message: actions.KillMessage(t.status.Name, actions.ReasonNone, false),
			},
			sandbox: t.status.SandboxID, ended: make(chan struct{}),
		})
	}
	for i, t := range all {
		for _, j := range t.after {
			kills[i].after = append(kills[i].after, kills[j])
		}
	}
	return kills
}

// stopSandboxes stops all sandboxes that passedOver does not report. A sandbox that has stopped by
// itself is stopped, too: its network may still exist (containerd #5768).
func (s *Stopper) stopSandboxes(ctx context.Context, status *runtime.PodStatus, passedOver func(id string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	errs := make([]error, len(status.Sandboxes))
	var group sync.WaitGroup
	for i := range status.Sandboxes {
		if passedOver(status.Sandboxes[i].ID) {
			continue
		}
		group.Go(func() { errs[i] = s.config.Sandboxes.Stop(ctx, status.Sandboxes[i].ID) })
	}
	group.Wait()
	return errors.Join(errs...)
}
