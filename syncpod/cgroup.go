package syncpod

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/internal/podresources"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/memory"
)

// cgroupKey is the back-off key of failures to lower the pod's own memory limit. No container and no
// resize of a container has this key.
func cgroupKey(pod *v1.Pod) memory.Key {
	limit := podresources.Total(&pod.Spec, podresources.Limits, v1.ResourceMemory)
	if limit == nil {
		limit = new(resource.Quantity)
	}
	return memory.Key{Resources: "memory of the pod " + limit.String()}
}

// podCgroup creates and updates a pod's cgroup.
type podCgroup struct{ *observedPod }

// ensureCgroup creates or updates the pod's cgroup. While containers are changed, they must fit before and after the change,
// so no limit is lowered. A memory limit below the memory in use is not lowered either; that delays nothing else. exists
// means that the sandbox of the pod runs in the cgroup: then an update that hangs delays no restart.
func (o podCgroup) ensureCgroup(ctx context.Context, exists, changes bool) (parent string, err error) {
	cgroups, asking := o.config.Extensions.Cgroups, ctx
	if exists && !changes {
		var cancel context.CancelFunc
		asking, cancel = context.WithTimeout(ctx, lastknown.Patience)
		defer cancel()
	}
	if changes || o.mayNotLower() {
		parent, err = cgroups.RaiseCgroup(asking, o.pod)
	} else if parent, err = cgroups.EnsureCgroup(asking, o.pod); errors.Is(err, cgroup.ErrMemoryInUse) {
		o.memoryInUse = &StepError{Step: stepResize, Reason: errResizePod, Err: err}
		o.holdUp(ctx, cgroupKey(o.pod), o.memoryInUse)
		o.warn(ctx, EventResizeError, "Error resizing pod: %v", err)
		parent, err = cgroups.RaiseCgroup(asking, o.pod)
	} else if err == nil {
		o.memory.succeeded(cgroupKey(o.pod))
	}
	if err != nil {
		o.warn(ctx, EventFailedCreatePodContainer, "unable to ensure pod container exists: %v", err)
		return "", fmt.Errorf("cgroup: %w", err)
	}
	return parent, nil
}

// mayNotLower reports whether the pod used more memory than its new limit a short time ago.
func (o podCgroup) mayNotLower() bool {
	o.memoryInUse = o.memory.held(cgroupKey(o.pod), time.Now())
	return o.memoryInUse != nil
}

// lowering updates a running pod's cgroup.
type lowering struct{ *work }

// updateCgroup updates the pod's cgroup. changes means that the resources of a running container change
// afterwards.
func (w lowering) updateCgroup(ctx context.Context, changes bool) {
	if w.config.Extensions.Cgroups == nil {
		return
	}
	if _, err := (podCgroup{&w.observedPod}).ensureCgroup(ctx, true, changes); err != nil {
		w.fail(&StepError{Step: stepPrepare, Reason: ErrPreparePod, Err: err})
	}
}

// changesContainers reports whether a running container needs other resources than it has: it is resized, or
// could not be stopped in order to restart with them.
func (w lowering) changesContainers() bool { return resizing(w).resizes() || len(w.unstopped) > 0 }

// lowerCgroup is a resize's last step. As long as a container does not have its new resources, the
// cgroup keeps its larger limits.
func (w lowering) lowerCgroup(ctx context.Context) {
	if w.config.Extensions.Cgroups == nil {
		return
	}
	if resizing(w).resizes() && !resizing(w).resizeFailed() {
		w.updateCgroup(ctx, false)
	}
	if w.memoryInUse != nil {
		w.fail(w.memoryInUse)
	}
}
