package syncpod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// mirroring keeps the mirror of a static pod.
type mirroring struct{ *observedPod }

// mirror ensures that a static pod has its mirror pod. A failure is logged and retried in the next
// sync; the pod runs without it.
func (o mirroring) mirror(ctx context.Context) {
	if o.config.Extensions.Mirrors == nil || !runtime.IsStatic(o.pod) {
		return
	}
	if err := o.keepMirror(ctx); err != nil {
		o.log(o.pod).Error(err, "no mirror of a static pod")
	}
}

// keepMirror replaces a mirror that shows another version, or is being deleted.
func (o mirroring) keepMirror(ctx context.Context) error {
	mirror, err := o.config.Extensions.Mirrors.MirrorPod(ctx, o.pod)
	if err != nil {
		return err
	}
	if mirror != nil {
		if mirror.DeletionTimestamp == nil && mirrors(mirror, o.pod) {
			return nil
		}
		if err := o.config.Extensions.Mirrors.DeleteMirrorPod(ctx, mirror); err != nil {
			return err
		}
	}
	return o.config.Extensions.Mirrors.CreateMirrorPod(ctx, mirrorOf(o.pod))
}

// mirrors reports whether mirror is the mirror of the current version of the pod.
func mirrors(mirror, pod *v1.Pod) bool {
	return mirror.Namespace == pod.Namespace && mirror.Name == pod.Name &&
		mirror.Annotations[v1.MirrorPodAnnotationKey] == pod.Annotations[runtime.AnnotationConfigHash]
}

// mirrorOf makes the mirror of a static pod. Its UID is the API server's to give.
func mirrorOf(pod *v1.Pod) *v1.Pod {
	mirror := pod.DeepCopy()
	mirror.UID = ""
	mirror.ResourceVersion = ""
	mirror.Status = v1.PodStatus{}
	mirror.Annotations[v1.MirrorPodAnnotationKey] = pod.Annotations[runtime.AnnotationConfigHash]
	return mirror
}
