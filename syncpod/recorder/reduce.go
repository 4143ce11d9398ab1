package recorder

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reduced returns what a decision depends on. All else is left out, because users put secrets into commands, environments
// and annotations.
func reduced(pod *v1.Pod) v1.Pod {
	r := v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, DeletionTimestamp: pod.DeletionTimestamp},
		Spec:       v1.PodSpec{RestartPolicy: pod.Spec.RestartPolicy, HostNetwork: pod.Spec.HostNetwork, Resources: pod.Spec.Resources},
	}
	for i := range pod.Spec.InitContainers {
		r.Spec.InitContainers = append(r.Spec.InitContainers, reducedContainer(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		r.Spec.Containers = append(r.Spec.Containers, reducedContainer(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		r.Spec.EphemeralContainers = append(r.Spec.EphemeralContainers, v1.EphemeralContainer{EphemeralContainerCommon: v1.EphemeralContainerCommon(reducedContainer(&c))})
	}
	return r
}

func reducedContainer(c *v1.Container) v1.Container {
	r := v1.Container{
		Name: c.Name, Image: c.Image, Resources: c.Resources, ResizePolicy: c.ResizePolicy,
		RestartPolicy: c.RestartPolicy, RestartPolicyRules: c.RestartPolicyRules,
		StartupProbe: reducedProbe(c.StartupProbe), LivenessProbe: reducedProbe(c.LivenessProbe), ReadinessProbe: reducedProbe(c.ReadinessProbe),
	}
	if c.Lifecycle != nil && c.Lifecycle.PostStart != nil {
		r.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{}}
	}
	return r
}

// reducedProbe shows only whether there is a probe.
func reducedProbe(p *v1.Probe) *v1.Probe {
	if p == nil {
		return nil
	}
	return &v1.Probe{}
}
