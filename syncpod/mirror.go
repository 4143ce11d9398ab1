package syncpod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// mirror sees to it that a static pod has its mirror. What fails is logged and
// tried again with the next sync: the pod runs without it.
func (w *work) mirror(ctx context.Context) {
	if w.config.Extensions.Mirrors == nil || !runtime.IsStatic(w.pod) {
		return
	}
	if err := w.keepMirror(ctx); err != nil {
		w.log(w.pod).Error(err, "no mirror of a static pod")
	}
}

// keepMirror replaces a mirror that shows another version, or is being deleted.
func (w *work) keepMirror(ctx context.Context) error {
	mirror, err := w.config.Extensions.Mirrors.MirrorPod(ctx, w.pod)
	if err != nil {
		return err
	}
	if mirror != nil {
		if mirror.DeletionTimestamp == nil && mirrors(mirror, w.pod) {
			return nil
		}
		if err := w.config.Extensions.Mirrors.DeleteMirrorPod(ctx, mirror); err != nil {
			return err
		}
	}
	return w.config.Extensions.Mirrors.CreateMirrorPod(ctx, mirrorOf(w.pod))
}

// mirrors reports whether a mirror shows the pod as it is.
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
