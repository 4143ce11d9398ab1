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

// hashOf is what its mirror knows a static pod by.
func hashOf(static *v1.Pod) types.UID {
	return types.UID(static.Annotations[runtime.AnnotationConfigHash])
}

// mirrorOf makes the mirror of a static pod, owned by its node. Its UID and its status are
// the API server's to give.
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
