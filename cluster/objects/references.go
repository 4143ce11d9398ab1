package objects

import (
	v1 "k8s.io/api/core/v1"
)

// references returns which ConfigMaps and Secrets pods name.
func references(pods []*v1.Pod) (configMaps, secrets map[key]bool) {
	r := named{configMaps: map[key]bool{}, secrets: map[key]bool{}}
	for _, pod := range pods {
		r.namespace = pod.Namespace
		for _, ref := range pod.Spec.ImagePullSecrets {
			r.secret(ref.Name)
		}
		for i := range pod.Spec.Volumes {
			r.volume(&pod.Spec.Volumes[i])
		}
		for i := range pod.Spec.InitContainers {
			r.container(pod.Spec.InitContainers[i].EnvFrom, pod.Spec.InitContainers[i].Env)
		}
		for i := range pod.Spec.Containers {
			r.container(pod.Spec.Containers[i].EnvFrom, pod.Spec.Containers[i].Env)
		}
		for i := range pod.Spec.EphemeralContainers {
			r.container(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
		}
	}
	return r.configMaps, r.secrets
}

// named are the objects that the pods of a namespace name.
type named struct {
	namespace           string
	configMaps, secrets map[key]bool
}

func (n *named) configMap(name string) { n.configMaps[key{Namespace: n.namespace, Name: name}] = true }
func (n *named) secret(name string)    { n.secrets[key{Namespace: n.namespace, Name: name}] = true }

func (n *named) container(from []v1.EnvFromSource, vars []v1.EnvVar) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			n.configMap(f.ConfigMapRef.Name)
		}
		if f.SecretRef != nil {
			n.secret(f.SecretRef.Name)
		}
	}
	for _, v := range vars {
		switch {
		case v.ValueFrom == nil:
		case v.ValueFrom.ConfigMapKeyRef != nil:
			n.configMap(v.ValueFrom.ConfigMapKeyRef.Name)
		case v.ValueFrom.SecretKeyRef != nil:
			n.secret(v.ValueFrom.SecretKeyRef.Name)
		}
	}
}

func (n *named) volume(v *v1.Volume) {
	switch {
	case v.ConfigMap != nil:
		n.configMap(v.ConfigMap.Name)
	case v.Secret != nil:
		n.secret(v.Secret.SecretName)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				n.configMap(s.ConfigMap.Name)
			}
			if s.Secret != nil {
				n.secret(s.Secret.Name)
			}
		}
	}
}
