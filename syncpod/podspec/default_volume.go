package podspec

import (
	v1 "k8s.io/api/core/v1"
)

func defaultVolume(v *v1.VolumeSource) {
	if *v == (v1.VolumeSource{}) {
		v.EmptyDir = &v1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setPointer(&v.HostPath.Type, v1.HostPathUnset)
	}
	if v.Secret != nil {
		setPointer(&v.Secret.DefaultMode, v1.SecretVolumeSourceDefaultMode)
	}
	if v.ConfigMap != nil {
		setPointer(&v.ConfigMap.DefaultMode, v1.ConfigMapVolumeSourceDefaultMode)
	}
	if v.DownwardAPI != nil {
		setPointer(&v.DownwardAPI.DefaultMode, v1.DownwardAPIVolumeSourceDefaultMode)
		defaultFieldRefs(v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		defaultProjected(v.Projected)
	}
	if v.Image != nil {
		set(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
}

func defaultFieldRefs(items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}

func defaultProjected(p *v1.ProjectedVolumeSource) {
	const hour, day = 3600, 24 * 3600
	setPointer(&p.DefaultMode, v1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.DownwardAPI != nil {
			defaultFieldRefs(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			setPointer(&s.ServiceAccountToken.ExpirationSeconds, hour)
		}
		if s.PodCertificate != nil {
			setPointer(&s.PodCertificate.MaxExpirationSeconds, day)
		}
	}
}
