package syncpod

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ensureCgroup makes the cgroup of the pod, or brings it up to date: as far as its
// containers fit it before and after they are resized, if they are to be.
func (o *observedPod) ensureCgroup(ctx context.Context, resizes bool) (parent string, err error) {
	ensure := o.config.Extensions.Cgroups.EnsureCgroup
	if r, ok := o.config.Extensions.Cgroups.(CgroupRaiser); ok && resizes {
		ensure = r.RaiseCgroup
	}
	if parent, err = ensure(ctx, o.pod); err != nil {
		o.warn(ctx, eventFailedCgroup, "unable to ensure pod container exists: %v", err)
		return "", fmt.Errorf("cgroup: %w", err)
	}
	return parent, nil
}

// keepCgroup brings the cgroup up to date of a pod of which nothing is to be started:
// what was to be is prepared before.
func (w *work) keepCgroup(ctx context.Context) {
	if w.config.Extensions.Cgroups == nil {
		return
	}
	if _, err := w.ensureCgroup(ctx, w.resizes()); err != nil {
		w.fail(&StepError{Step: StepPrepare, Reason: ErrPreparePod, Err: err})
	}
}

// lowerCgroup is the end of a resize.
func (w *work) lowerCgroup(ctx context.Context) {
	if w.config.Extensions.Cgroups == nil {
		return
	}
	if _, err := w.config.Extensions.Cgroups.EnsureCgroup(ctx, w.pod); err != nil {
		w.warn(ctx, eventFailedCgroup, "unable to resize the pod's cgroup: %v", err)
		w.fail(&StepError{Step: StepPrepare, Reason: ErrPreparePod, Err: fmt.Errorf("cgroup: %w", err)})
	}
}

// cgroupCleaner removes cgroups.
type cgroupCleaner struct{ Cgroups }

// CleanPod removes that of a pod that has stopped.
func (c cgroupCleaner) CleanPod(ctx context.Context, pod *v1.Pod) error {
	return c.RemoveCgroup(ctx, pod)
}

// RemovePod removes that of a pod that is gone, if it is known by its UID.
func (c cgroupCleaner) RemovePod(ctx context.Context, uid types.UID) error {
	if r, ok := c.Cgroups.(OrphanCleaner); ok {
		return r.RemovePod(ctx, uid)
	}
	return nil
}
