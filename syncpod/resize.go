package syncpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
	"github.com/podsync/podsync/syncpod/resize"
)

// allocate returns a pod's allocated version. For a deleted pod it makes no new decision.
func (s *Syncer) allocate(ctx context.Context, pod *v1.Pod) (resize.Answer, error) {
	if s.config.Extensions.Allocations == nil {
		return resize.Answer{Pod: pod}, nil
	}
	if pod.DeletionTimestamp != nil {
		return resize.Answer{Pod: s.config.allocated(pod)}, nil
	}
	answer, err := s.config.Extensions.Allocations.Allocate(ctx, pod)
	if err == nil && answer.Pod == nil {
		err = errors.New("Extensions.Allocations returned neither a pod nor an error")
	}
	if err != nil {
		return answer, fmt.Errorf("syncpod: resources of pod %s: %w", podref.Name(pod), err)
	}
	return answer, nil
}

// allocated returns the pod with its allocated resources.
func (c *Config) allocated(pod *v1.Pod) *v1.Pod {
	if c.Extensions.Allocations == nil {
		return pod
	}
	return c.Extensions.Allocations.Allocated(pod)
}

// resizeConditions returns conditions for requested resources that are not allocated, and for allocated resources that
// the containers do not have yet.
func resizeConditions(d *decision, done *outcome, failed []*StepError) (conditions []v1.PodCondition) {
	if waits := d.allocation.Waits; waits != nil && waits.Outcome != resize.Accepted {
		conditions = append(conditions, v1.PodCondition{
			Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: string(waits.Outcome), Message: waits.Message,
		})
	}
	if !d.isResizing(done) && done.memoryInUse == nil {
		return conditions
	}
	c := v1.PodCondition{Type: v1.PodResizeInProgress, Status: v1.ConditionTrue}
	if why := resizeErrors(done.status, failed); len(why) > 0 {
		c.Reason, c.Message = v1.PodReasonError, strings.Join(why, "; ")
	}
	return append(conditions, c)
}

// isResizing reports whether the resources of a running container differ from its allocation.
func (d *decision) isResizing(done *outcome) bool {
	return slices.ContainsFunc(d.plan.Resize, func(step actions.ResizeStep) bool { return !slices.Contains(done.resized, step.ID) }) ||
		slices.ContainsFunc(d.plan.Kill, func(k actions.KillStep) bool { return k.Reason == actions.ResizeRestart })
}

// resizeErrors returns a resize's errors, by container, and for the pod as a whole.
func resizeErrors(status *runtime.PodStatus, failed []*StepError) (why []string) {
	for _, f := range failed {
		switch {
		case f.Step != stepResize || f.Err == nil:
		case f.Container.Name == "":
			why = append(why, "pod: "+withoutIDs(f.Err, idNames(status)...))
		default:
			why = append(why, fmt.Sprintf("container %s: %s", f.Container.Name, withoutIDs(f.Err, idNames(status)...)))
		}
	}
	return why
}

// resizeReported is the last resize reported in events.
type resizeReported struct {
	waits   resize.Verdict
	started bool
}

// reportResize records an event when a resize waits, for each new reason, and when it starts.
func (s *Syncer) reportResize(d *decision, conditions []v1.PodCondition) {
	var now resizeReported
	for _, c := range conditions {
		switch c.Type {
		case v1.PodResizePending:
			now.waits = *d.allocation.Waits
		case v1.PodResizeInProgress:
			now.started = true
		}
	}
	before := d.memory.replaceResize(now)
	if now.waits != before.waits && now.waits != (resize.Verdict{}) {
		reason := EventResizeDeferred
		if now.waits.Outcome == resize.Infeasible {
			reason = EventResizeInfeasible
		}
		s.eventf(podref.Pod(d.pod), v1.EventTypeWarning, reason, "Pod resize %s: %s", now.waits.Outcome, now.waits.Message)
	}
	if now.started && !before.started {
		s.eventf(podref.Pod(d.pod), v1.EventTypeNormal, EventResizeStarted, "Pod resize started")
	}
}

// replaceResize stores the reported state and returns the previous one.
func (m *podMemory) replaceResize(now resizeReported) (before resizeReported) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.resize != nil {
		before = *m.resize
	}
	m.resize = nil
	if now != (resizeReported{}) {
		m.resize = &now
	}
	return before
}

// resizeAll changes the resources of running containers in place (KEP-1287) to the allocated ones. Containers that get more
// memory wait for those that release some.
func (s *Syncer) resizeAll(ctx context.Context, d *decision, done outcome) outcome {
	var unreleased *StepError // the failure of a container that should have released memory
	for _, step := range d.plan.Resize {
		failed := d.facts.held.resizes[step.Container.Name]
		switch {
		case failed == nil && step.MoreMemory && unreleased != nil:
			done.fail(unreleased.waitsFor(step.Container))
			continue
		case failed == nil:
			done, failed = s.resizeOne(ctx, d, done, step)
		}
		done.fail(failed)
		if failed != nil && !step.MoreMemory && step.Memory {
			unreleased = failed
		}
	}
	return done
}

// waitsFor returns the error of a resize that waits for the failed one.
func (e *StepError) waitsFor(c actions.ContainerRef) *StepError {
	return &StepError{
		Step: stepResize, Reason: errResizeContainer, Container: c, NotBefore: e.NotBefore, Waits: true,
		Err: fmt.Errorf("waits for the memory of container %s", e.Container.Name),
	}
}

// resizeKey is the back-off key of a container's resize. No start has this key.
func resizeKey(c *v1.Container) memory.Key {
	return memory.Key{Container: c.Name, Resources: c.Resources.String()}
}

func (s *Syncer) resizeOne(ctx context.Context, d *decision, done outcome, step actions.ResizeStep) (outcome, *StepError) {
	spec := step.Container.Spec(d.pod)
	err := d.memory.secrets.redactErrorOf(s.resize(ctx, d, &done, step, spec), slices.Values([]*v1.Container{spec}))
	if err != nil {
		failed := &StepError{Step: stepResize, Reason: errResizeContainer, Container: step.Container, Err: err}
		d.memory.delayRetry(ctx, resizeKey(spec), failed)
		if ctx.Err() == nil {
			s.eventf(podref.Container(d.pod, step.Container), v1.EventTypeWarning, EventResizeError, "Error resizing container %s: %s", spec.Name, withoutIDs(err, idNames(done.status)...))
		}
		return done, failed
	}
	given := runtime.ResourcesOf(&d.pod.Spec, spec)
	d.memory.succeeded(resizeKey(spec))
	d.memory.setResources(step.ID.ID, given)
	d.memory.Record(ctx)
	done.resized, done.status = append(done.resized, step.ID), withInForce(done.status, step.ID, given)
	s.eventf(podref.Container(d.pod, step.Container), v1.EventTypeNormal, EventResizeCompleted, "Container %s resized", spec.Name)
	s.log(d.pod).Info("container resized", "container", spec.Name)
	return done, nil
}

func (s *Syncer) resize(ctx context.Context, d *decision, done *outcome, step actions.ResizeStep, spec *v1.Container) error {
	in := container.Input{Pod: d.pod, Name: spec.Name, Node: s.config.Node.Containers, CPUSet: runtime.CPUSet{Exclusive: d.facts.CPUSets[spec.Name].Exclusive}}
	if done.sandbox != nil {
		in.UserNamespace = done.sandbox.input.UserNamespace
	}
	config, err := container.GenerateContainerConfig(in)
	if err != nil {
		return err
	}
	resources := config.GetLinux().GetResources()
	at := slices.IndexFunc(done.status.Containers, func(c runtime.ContainerStatus) bool { return c.ID == step.ID })
	before := done.status.Containers[at].Resources
	if err := s.checkMemory(ctx, step.ID.ID, before.MemoryLimit, resources.GetMemoryLimitInBytes()); err != nil {
		return err
	}
	lift(resources, before)
	_, err = s.config.Client.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: step.ID.ID, Linux: resources})
	return cri.Classify(err)
}

// checkMemory rejects a memory limit that is lower than before and below the container's memory that cannot be
// reclaimed: the kernel would kill processes to enforce it. If the runtime does not report that memory, the limit
// is tried.
func (s *Syncer) checkMemory(ctx context.Context, id string, before, limit int64) error {
	if limit <= 0 || before != 0 && limit >= before {
		return nil
	}
	resp, err := s.config.Client.ContainerStats(ctx, &runtimeapi.ContainerStatsRequest{ContainerId: id})
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

// cgroupKey is the back-off key of failures to lower the pod's own memory limit. No container and no
// resize of a container has this key.
func cgroupKey(pod *v1.Pod) memory.Key {
	limit := podresources.Total(&pod.Spec, podresources.Limits, v1.ResourceMemory)
	if limit == nil {
		limit = new(resource.Quantity)
	}
	return memory.Key{Resources: "memory of the pod " + limit.String()}
}

// ensureCgroup creates or updates the pod's cgroup. While containers are changed, they must fit before and after the change,
// so no limit is lowered. A memory limit below the memory in use is not lowered either; that delays nothing else, and is returned
// as inUse. exists means that the pod's sandbox runs in the cgroup: then an update that hangs delays no restart.
func (s *Syncer) ensureCgroup(ctx context.Context, d *decision, exists, changes bool) (parent string, inUse *StepError, err error) {
	cgroups, asking := s.config.Extensions.Cgroups, ctx
	if exists && !changes {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, lastknown.Patience)
		defer cancel()
	}
	if !changes {
		inUse = d.memory.held(cgroupKey(d.pod), time.Now()) // the pod used more memory than its new limit a short time ago
	}
	if changes || inUse != nil {
		parent, err = cgroups.RaiseCgroup(asking, d.pod)
	} else if parent, err = cgroups.EnsureCgroup(asking, d.pod); errors.Is(err, cgroup.ErrMemoryInUse) {
		inUse = &StepError{Step: stepResize, Reason: errResizePod, Err: err}
		d.memory.delayRetry(ctx, cgroupKey(d.pod), inUse)
		s.warn(ctx, d.pod, EventResizeError, "Error resizing pod: %v", err)
		parent, err = cgroups.RaiseCgroup(asking, d.pod)
	} else if err == nil {
		d.memory.succeeded(cgroupKey(d.pod))
	}
	if err != nil {
		s.warn(ctx, d.pod, EventFailedCreatePodContainer, "unable to ensure pod container exists: %v", err)
		return "", inUse, fmt.Errorf("cgroup: %w", err)
	}
	return parent, inUse, nil
}

// updateCgroup updates a running pod's cgroup. changes means that the resources of a running container change
// afterwards.
func (s *Syncer) updateCgroup(ctx context.Context, d *decision, changes bool) (inUse, failed *StepError) {
	if s.config.Extensions.Cgroups == nil {
		return nil, nil
	}
	_, inUse, err := s.ensureCgroup(ctx, d, true, changes)
	if err != nil {
		failed = &StepError{Step: stepPrepare, Reason: ErrPreparePod, Err: err}
	}
	return inUse, failed
}

// lowerCgroup is a resize's last step. As long as a container does not have its new resources, the
// cgroup keeps its larger limits.
func (s *Syncer) lowerCgroup(ctx context.Context, d *decision, done outcome) outcome {
	resizeFailed := slices.ContainsFunc(done.failed, func(f *StepError) bool { return f.Step == stepResize && f.Container.Name != "" })
	if len(d.plan.Resize) > 0 && !resizeFailed {
		var failed *StepError
		done.memoryInUse, failed = s.updateCgroup(ctx, d, false)
		done.fail(failed)
	}
	done.fail(done.memoryInUse)
	return done
}
