package node

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod"
)

// appArmorFits rejects a pod that asks for an AppArmor profile if the machine has no AppArmor: the
// runtime could not confine its containers, or would run them without.
func appArmorFits(pod *v1.Pod, enabled bool) *syncpod.Rejection {
	if enabled || !wantsAppArmor(pod) {
		return nil
	}
	return &syncpod.Rejection{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}

// wantsAppArmor reports whether a pod or one of its containers asks for a profile. An API server
// copies annotations to fields, so that they count for static pods alone.
func wantsAppArmor(pod *v1.Pod) bool {
	if sc := pod.Spec.SecurityContext; sc != nil && confines(sc.AppArmorProfile) {
		return true
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if c.SecurityContext != nil && confines(c.SecurityContext.AppArmorProfile) {
				return true
			}
		}
	}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && runtime.IsStatic(pod) && value != "" && value != v1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return true
		}
	}
	return false
}

func confines(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}
