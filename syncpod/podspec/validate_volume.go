package podspec

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	maxMode            = 0o777
	minTokenExpiration = 600
	maxTokenExpiration = 1 << 32
)

// volumes returns the volumes by name.
func (v *validator) volumes(volumes []v1.Volume, at *field.Path) map[string]*v1.VolumeSource {
	byName := map[string]*v1.VolumeSource{}
	unique := v.unique()
	for i := range volumes {
		volume, at := &volumes[i], at.Index(i)
		v.text(at.Child("name"), volume.Name, validation.IsDNS1123Label)
		unique(at.Child("name"), volume.Name)
		v.exactlyOne(at, volume.VolumeSource)
		v.volume(at, &volume.VolumeSource)
		byName[volume.Name] = &volume.VolumeSource
	}
	return byName
}

func (v *validator) volume(at *field.Path, s *v1.VolumeSource) {
	if s.HostPath != nil {
		v.hostPath(at.Child("hostPath"), s.HostPath)
	}
	if s.EmptyDir != nil && s.EmptyDir.SizeLimit != nil && s.EmptyDir.SizeLimit.Sign() < 0 {
		v.invalid(at.Child("emptyDir", "sizeLimit"), s.EmptyDir.SizeLimit.String(), "must be greater than or equal to 0")
	}
	if s.Secret != nil {
		at := at.Child("secret")
		v.text(at.Child("secretName"), s.Secret.SecretName, present)
		v.files(at, s.Secret.DefaultMode, s.Secret.Items)
	}
	if s.ConfigMap != nil {
		at := at.Child("configMap")
		v.text(at.Child("name"), s.ConfigMap.Name, present)
		v.files(at, s.ConfigMap.DefaultMode, s.ConfigMap.Items)
	}
	if s.DownwardAPI != nil {
		v.mode(at.Child("downwardAPI", "defaultMode"), s.DownwardAPI.DefaultMode)
		v.downward(at.Child("downwardAPI", "items"), s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		v.projected(at.Child("projected"), s.Projected)
	}
	if s.Image != nil {
		v.text(at.Child("image", "reference"), s.Image.Reference, present)
		oneOf(v, at.Child("image", "pullPolicy"), s.Image.PullPolicy, v1.PullAlways, v1.PullIfNotPresent, v1.PullNever)
	}
	if s.PersistentVolumeClaim != nil {
		v.text(at.Child("persistentVolumeClaim", "claimName"), s.PersistentVolumeClaim.ClaimName, validation.IsDNS1123Subdomain)
	}
}

func (v *validator) hostPath(at *field.Path, h *v1.HostPathVolumeSource) {
	v.text(at.Child("path"), h.Path, present)
	v.noBacksteps(at.Child("path"), h.Path)
	if h.Type != nil && *h.Type != v1.HostPathUnset {
		oneOf(v, at.Child("type"), *h.Type, v1.HostPathDirectoryOrCreate, v1.HostPathDirectory, v1.HostPathFileOrCreate,
			v1.HostPathFile, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev)
	}
}

func (v *validator) mode(at *field.Path, mode *int32) { v.add(inRange(at, mode, 0, maxMode)...) }

func (v *validator) files(at *field.Path, mode *int32, items []v1.KeyToPath) {
	v.mode(at.Child("defaultMode"), mode)
	for i, item := range items {
		at := at.Child("items").Index(i)
		v.text(at.Child("key"), item.Key, present)
		v.filePath(at.Child("path"), item.Path)
		v.mode(at.Child("mode"), item.Mode)
	}
}

// filePath checks a file's path in a volume. In the volume's directory, names that begin with two dots are
// reserved for its content's versions.
func (v *validator) filePath(at *field.Path, p string) {
	v.text(at, p, present)
	v.below(at, p)
	if first, _, _ := strings.Cut(p, "/"); first != ".." && strings.HasPrefix(first, "..") {
		v.invalid(at, p, "must not start with '..'")
	}
}

func (v *validator) downward(at *field.Path, items []v1.DownwardAPIVolumeFile) {
	for i := range items {
		item, at := &items[i], at.Index(i)
		v.filePath(at.Child("path"), item.Path)
		v.mode(at.Child("mode"), item.Mode)
		v.fieldRef(at.Child("fieldRef"), item.FieldRef, fileFields)
		if item.ResourceFieldRef != nil {
			v.text(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName, present)
			v.resourceRef(at.Child("resourceFieldRef"), item.ResourceFieldRef)
		}
		if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
			v.add(field.Required(at, "must specify one of fieldRef and resourceFieldRef"))
		}
	}
}

func (v *validator) projected(at *field.Path, p *v1.ProjectedVolumeSource) {
	v.mode(at.Child("defaultMode"), p.DefaultMode)
	for i := range p.Sources {
		s, at := &p.Sources[i], at.Child("sources").Index(i)
		v.exactlyOne(at, *s)
		if s.Secret != nil {
			v.text(at.Child("secret", "name"), s.Secret.Name, present)
			v.files(at.Child("secret"), nil, s.Secret.Items)
		}
		if s.ConfigMap != nil {
			v.text(at.Child("configMap", "name"), s.ConfigMap.Name, present)
			v.files(at.Child("configMap"), nil, s.ConfigMap.Items)
		}
		if s.DownwardAPI != nil {
			v.downward(at.Child("downwardAPI", "items"), s.DownwardAPI.Items)
		}
		if t := s.ServiceAccountToken; t != nil {
			at := at.Child("serviceAccountToken")
			v.filePath(at.Child("path"), t.Path)
			v.add(inRange(at.Child("expirationSeconds"), t.ExpirationSeconds, minTokenExpiration, maxTokenExpiration)...)
		}
	}
}
