package podspec

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// References returns the names of the ConfigMaps and Secrets that a pod's spec refers to, in the pod's namespace: in
// volumes, in environments of containers and, for Secrets, in imagePullSecrets. Each name occurs once, sorted, whether
// the reference is optional or not. The names are those in the spec: the objects may not exist.
func References(pod *v1.Pod) (configMaps, secrets []string) {
	if pod == nil {
		return nil, nil
	}
	r := references{configMaps: map[string]bool{}, secrets: map[string]bool{}}
	for _, ref := range pod.Spec.ImagePullSecrets {
		r.secrets[ref.Name] = true
	}
	for i := range pod.Spec.Volumes {
		r.volume(&pod.Spec.Volumes[i])
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		r.environment(c.EnvFrom, c.Env)
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		r.environment(c.EnvFrom, c.Env)
	}
	return slices.Sorted(maps.Keys(r.configMaps)), slices.Sorted(maps.Keys(r.secrets))
}

// references are object names.
type references struct{ configMaps, secrets map[string]bool }

func (r references) environment(from []v1.EnvFromSource, vars []v1.EnvVar) {
	for _, f := range from {
		if f.ConfigMapRef != nil {
			r.configMaps[f.ConfigMapRef.Name] = true
		}
		if f.SecretRef != nil {
			r.secrets[f.SecretRef.Name] = true
		}
	}
	for _, v := range vars {
		switch {
		case v.ValueFrom == nil:
		case v.ValueFrom.ConfigMapKeyRef != nil:
			r.configMaps[v.ValueFrom.ConfigMapKeyRef.Name] = true
		case v.ValueFrom.SecretKeyRef != nil:
			r.secrets[v.ValueFrom.SecretKeyRef.Name] = true
		}
	}
}

func (r references) volume(v *v1.Volume) {
	switch {
	case v.ConfigMap != nil:
		r.configMaps[v.ConfigMap.Name] = true
	case v.Secret != nil:
		r.secrets[v.Secret.SecretName] = true
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				r.configMaps[s.ConfigMap.Name] = true
			}
			if s.Secret != nil {
				r.secrets[s.Secret.Name] = true
			}
		}
	}
}
