package admission

import (
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/container"
)

// appArmorFits rejects a pod that requests an AppArmor profile if the machine has no AppArmor: the runtime could not
// confine its containers, or would run them without the profile.
func appArmorFits(pod *v1.Pod, enabled bool) *syncpod.Rejection {
	if enabled || !wantsAppArmor(pod) {
		return nil
	}
	return &syncpod.Rejection{Reason: "AppArmor", Message: "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
}

// wantsAppArmor reports whether a pod or one of its containers requests a profile.
func wantsAppArmor(pod *v1.Pod) bool {
	if sc := pod.Spec.SecurityContext; sc != nil && confines(sc.AppArmorProfile) {
		return true
	}
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c v1.Container) bool {
		return confines(container.AppArmorProfile(pod, &c))
	})
}

func confines(p *v1.AppArmorProfile) bool {
	return p != nil && p.Type != v1.AppArmorProfileTypeUnconfined
}
