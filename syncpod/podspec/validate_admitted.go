package podspec

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateAdmitted returns the reasons why a node cannot run an admitted pod, or nil: invalid names
// that would become parts of paths and labels, paths that must stay in a volume, and the errors of
// [ValidateQuantities]. Only the server applies the rules of the API. They depend on its version,
// and are looser for pods that an earlier version admitted, so a node with its own rules would
// fail running pods.
//
// The pod must have its defaults; see [Default]. The error is like [Validate]'s.
func ValidateAdmitted(pod *v1.Pod) error {
	if pod == nil {
		return field.Required(field.NewPath("pod"), "")
	}
	var v validator
	if !v.size(pod) {
		return v.errs.ToAggregate()
	}
	v.quantities(pod)
	v.identity(pod)
	unique := v.unique()
	for m := range members(&pod.Spec) {
		v.text(m.path.Child("name"), m.Name, validation.IsDNS1123Label)
		unique(m.path.Child("name"), m.Name)
		for i := range m.VolumeMounts {
			v.subPath(m.path.Child("volumeMounts").Index(i), &m.VolumeMounts[i])
		}
	}
	unique = v.unique()
	for i := range pod.Spec.Volumes {
		volume, at := &pod.Spec.Volumes[i], field.NewPath("spec", "volumes").Index(i)
		v.text(at.Child("name"), volume.Name, validation.IsDNS1123Label)
		unique(at.Child("name"), volume.Name)
		v.filePaths(at, &volume.VolumeSource)
	}
	return v.errs.ToAggregate()
}

// filePaths checks the files' paths in a volume.
func (v *validator) filePaths(at *field.Path, s *v1.VolumeSource) {
	if s.Secret != nil {
		v.itemPaths(at.Child("secret"), s.Secret.Items)
	}
	if s.ConfigMap != nil {
		v.itemPaths(at.Child("configMap"), s.ConfigMap.Items)
	}
	if s.DownwardAPI != nil {
		v.downwardPaths(at.Child("downwardAPI"), s.DownwardAPI.Items)
	}
	if s.Projected == nil {
		return
	}
	for i := range s.Projected.Sources {
		source, at := &s.Projected.Sources[i], at.Child("projected", "sources").Index(i)
		if source.Secret != nil {
			v.itemPaths(at.Child("secret"), source.Secret.Items)
		}
		if source.ConfigMap != nil {
			v.itemPaths(at.Child("configMap"), source.ConfigMap.Items)
		}
		if source.DownwardAPI != nil {
			v.downwardPaths(at.Child("downwardAPI"), source.DownwardAPI.Items)
		}
		if source.ServiceAccountToken != nil {
			v.filePath(at.Child("serviceAccountToken", "path"), source.ServiceAccountToken.Path)
		}
	}
}

func (v *validator) itemPaths(at *field.Path, items []v1.KeyToPath) {
	for i := range items {
		v.filePath(at.Child("items").Index(i).Child("path"), items[i].Path)
	}
}

func (v *validator) downwardPaths(at *field.Path, items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		v.filePath(at.Child("items").Index(i).Child("path"), items[i].Path)
	}
}
