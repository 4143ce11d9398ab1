package mirrors

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podspec"
	"github.com/podsync/podsync/syncpod/source"
)

// Source returns a source of the same static pods, for which mirrors are created once a Loop has
// received them. It rejects pods that refer to objects of the API: a user who can write manifests
// on the node could otherwise read any object.
func (m *Mirrors) Source(static source.Source) source.Source { return mirrored{static, m} }

type mirrored struct {
	source.Source
	mirrors *Mirrors
}

func (s mirrored) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	return s.Source.Run(ctx, func(snapshot source.Snapshot) {
		snapshot = withoutReferences(snapshot)
		s.mirrors.setDesired(snapshot)
		deliver(snapshot)
	})
}

// withoutReferences returns a snapshot without the pods that refer to objects of the API, and with
// an error for each.
func withoutReferences(s source.Snapshot) source.Snapshot {
	all := s.Pods
	s.Pods, s.Errors = nil, s.Errors[:len(s.Errors):len(s.Errors)]
	for _, pod := range all {
		if what := referenceOf(pod); what != "" {
			s.Errors = append(s.Errors, fmt.Errorf("static pod %s/%s refers to %s: static pods have no objects of the API", pod.Namespace, pod.Name, what))
			continue
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

// referenceOf returns the first API object that a pod refers to, empty if there is none.
func referenceOf(pod *v1.Pod) string {
	configMaps, secrets := podspec.References(pod)
	switch {
	case len(configMaps) > 0:
		return fmt.Sprintf("ConfigMap %q", configMaps[0])
	case len(secrets) > 0:
		return fmt.Sprintf("Secret %q", secrets[0])
	case len(pod.Spec.ImagePullSecrets) > 0:
		return fmt.Sprintf("Secret %q", pod.Spec.ImagePullSecrets[0].Name)
	case pod.Spec.ServiceAccountName != "":
		return fmt.Sprintf("ServiceAccount %q", pod.Spec.ServiceAccountName)
	case len(pod.Spec.ResourceClaims) > 0:
		return fmt.Sprintf("ResourceClaim %q", pod.Spec.ResourceClaims[0].Name)
	}
	for _, volume := range pod.Spec.Volumes {
		switch {
		case volume.PersistentVolumeClaim != nil:
			return fmt.Sprintf("PersistentVolumeClaim %q", volume.PersistentVolumeClaim.ClaimName)
		case volume.Ephemeral != nil:
			return fmt.Sprintf("a PersistentVolumeClaim of volume %q", volume.Name)
		case volume.Projected != nil && projectsReference(volume.Projected):
			return fmt.Sprintf("an object that volume %q projects", volume.Name)
		}
	}
	return ""
}

func projectsReference(p *v1.ProjectedVolumeSource) bool {
	for _, from := range p.Sources {
		if from.ServiceAccountToken != nil || from.ClusterTrustBundle != nil || from.PodCertificate != nil {
			return true
		}
	}
	return false
}
