package mirrors

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Shown returns the UID of the static pod whose mirror the given pod is, or "" if it is not a
// mirror.
func Shown(pod *v1.Pod) types.UID {
	return types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])
}

// hashOf returns the hash by which a mirror identifies its static pod.
func hashOf(static *v1.Pod) types.UID {
	return types.UID(static.Annotations[runtime.AnnotationConfigHash])
}

// mirrorOf returns a static pod's mirror, owned by the Node. The API server sets its UID and its status.
func mirrorOf(static *v1.Pod, node *v1.Node) *v1.Pod {
	mirror := static.DeepCopy()
	mirror.UID, mirror.ResourceVersion, mirror.Status = "", "", v1.PodStatus{}
	if mirror.Annotations == nil {
		mirror.Annotations = map[string]string{}
	}
	mirror.Annotations[v1.MirrorPodAnnotationKey] = string(hashOf(static))
	mirror.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
	}}
	return mirror
}
