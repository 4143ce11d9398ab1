package syncpod

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

// resizing changes the resources of containers that run.
type resizing struct{ *work }

// resizes reports whether the plan resizes containers in place.
func (w resizing) resizes() bool { return len(w.plan.Resize) > 0 }

// resizeAll changes the resources of running containers in place (KEP-1287) to those of the given pod, which the
// Allocations have accepted.
func (w resizing) resizeAll(ctx context.Context) {
	if !w.resizes() {
		return
	}
	var kept *StepError // the failure of a container that should have released memory
	for _, step := range w.plan.Resize {
		spec := step.Container.Spec(w.pod)
		held := w.held.resizes[spec.Name]
		switch {
		case held == nil && step.MoreMemory && kept != nil:
			w.fail(kept.waitsFor(step.Container))
		case held != nil:
			w.fail(held)
		default:
			held = w.resizeOne(ctx, step, spec)
		}
		if held != nil && !step.MoreMemory && step.Memory {
			kept = held
		}
	}
}

// waitsFor returns the error of a resize that waits for the failed one.
func (e *StepError) waitsFor(c actions.ContainerRef) *StepError {
	return &StepError{
		Step: stepResize, Reason: errResizeContainer, Container: c, NotBefore: e.NotBefore, Waits: true,
		Err: fmt.Errorf("waits for the memory of container %s", e.Container.Name),
	}
}

// resizeFailed reports whether the resize of a container has failed.
func (w resizing) resizeFailed() bool {
	return slices.ContainsFunc(w.failed, func(f *StepError) bool { return f.Step == stepResize && f.Container.Name != "" })
}

// resizeKey is the back-off key of a container's resize. No start has this key.
func resizeKey(c *v1.Container) memory.Key {
	return memory.Key{Container: c.Name, Resources: c.Resources.String()}
}

func (w resizing) resizeOne(ctx context.Context, step actions.ResizeStep, spec *v1.Container) *StepError {
	err := w.memory.secrets.redactErrorOf(w.resize(ctx, step, spec), slices.Values([]*v1.Container{spec}))
	if err == nil {
		w.memory.succeeded(resizeKey(spec))
		given := runtime.ResourcesOf(&w.pod.Spec, spec)
		w.memory.do(func(p *memory.Pod) { p.Instances.SetResources(step.ID.ID, given) })
		put(&w.resized, step.ID, true)
		w.status = withInForce(w.status, step.ID, given)
		w.record(ctx)
		w.eventf(podref.Container(w.pod, step.Container), v1.EventTypeNormal, EventResizeCompleted, "Container %s resized", spec.Name)
		w.log(w.pod).Info("container resized", "container", spec.Name)
		return nil
	}
	failed := &StepError{Step: stepResize, Reason: errResizeContainer, Container: step.Container, Err: err}
	w.holdUp(ctx, resizeKey(spec), failed)
	w.fail(failed)
	if ctx.Err() == nil {
		w.eventf(podref.Container(w.pod, step.Container), v1.EventTypeWarning, EventResizeError, "Error resizing container %s: %s", spec.Name, withoutIDs(err, w.idNames()...))
	}
	return failed
}

func (w resizing) resize(ctx context.Context, step actions.ResizeStep, spec *v1.Container) error {
	config, err := container.GenerateContainerConfig(container.Input{
		Pod: w.pod, Name: spec.Name, Node: w.config.Node.Containers, UserNamespace: w.sandbox.input.UserNamespace,
	})
	if err != nil {
		return err
	}
	resources := config.GetLinux().GetResources()
	before := w.instance(step.ID).Resources
	if err := w.checkMemory(ctx, step.ID.ID, before.MemoryLimit, resources.GetMemoryLimitInBytes()); err != nil {
		return err
	}
	lift(resources, before)
	_, err = w.config.Client.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: step.ID.ID, Linux: resources})
	return cri.Classify(err)
}

// checkMemory rejects a memory limit that is lower than before and below the container's memory that cannot be
// reclaimed: the kernel would kill processes to enforce it. If the runtime does not report that memory, the limit
// is tried.
func (w resizing) checkMemory(ctx context.Context, id string, before, limit int64) error {
	if limit <= 0 || before != 0 && limit >= before {
		return nil
	}
	resp, err := w.config.Client.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
	if err != nil {
		return nil
	}
	if used := resp.GetStats().GetMemory().GetWorkingSetBytes().GetValue(); used > uint64(limit) {
		return fmt.Errorf("%w: attempting to set memory limit (%d) below current usage (%d)", cgroup.ErrMemoryInUse, limit, used)
	}
	return nil
}

// lift sets limits that have been removed: a runtime ignores zero values.
func lift(r *runtimeapi.LinuxContainerResources, before *runtime.ContainerResources) {
	if before.CPULimit != 0 {
		r.CpuQuota = cmp.Or(r.GetCpuQuota(), -1)
	}
	if before.MemoryLimit != 0 {
		r.MemoryLimitInBytes = cmp.Or(r.GetMemoryLimitInBytes(), -1)
	}
}

// withInForce returns a copy of the status in which the instance has these resources.
func withInForce(status *runtime.PodStatus, id runtime.ContainerID, r runtime.ContainerResources) *runtime.PodStatus {
	with := new(*status)
	with.Containers = slices.Clone(status.Containers)
	for i := range with.Containers {
		if with.Containers[i].ID == id {
			with.Containers[i].Resources = &r
		}
	}
	return with
}
