package podspec

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The fields that a fieldRef can name, in addition to one label or annotation.
var (
	envFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	fileFields = []string{"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"}
)

func (v *validator) env(m *member, s *scope) {
	for i := range m.Env {
		e, at := &m.Env[i], m.path.Child("env").Index(i)
		v.text(at.Child("name"), e.Name, validation.IsRelaxedEnvVarName)
		if e.ValueFrom != nil {
			v.valueFrom(at.Child("valueFrom"), e, s)
		}
	}
	for i := range m.EnvFrom {
		from, at := &m.EnvFrom[i], m.path.Child("envFrom").Index(i)
		v.optional(at.Child("prefix"), from.Prefix, validation.IsRelaxedEnvVarName)
		v.exactlyOne(at, *from)
		if from.ConfigMapRef != nil {
			v.text(at.Child("configMapRef", "name"), from.ConfigMapRef.Name, validation.IsDNS1123Subdomain)
		}
		if from.SecretRef != nil {
			v.text(at.Child("secretRef", "name"), from.SecretRef.Name, validation.IsDNS1123Subdomain)
		}
	}
}

func (v *validator) valueFrom(at *field.Path, e *v1.EnvVar, s *scope) {
	from := e.ValueFrom
	v.exactlyOne(at, *from)
	if e.Value != "" {
		v.add(field.Forbidden(at, "must not be set with value"))
	}
	v.fieldRef(at.Child("fieldRef"), from.FieldRef, envFields)
	if from.ResourceFieldRef != nil {
		v.resourceRef(at.Child("resourceFieldRef"), from.ResourceFieldRef)
	}
	if ref := from.ConfigMapKeyRef; ref != nil {
		v.text(at.Child("configMapKeyRef", "name"), ref.Name, validation.IsDNS1123Subdomain)
		v.text(at.Child("configMapKeyRef", "key"), ref.Key, validation.IsConfigMapKey)
	}
	if ref := from.SecretKeyRef; ref != nil {
		v.text(at.Child("secretKeyRef", "name"), ref.Name, validation.IsDNS1123Subdomain)
		v.text(at.Child("secretKeyRef", "key"), ref.Key, validation.IsConfigMapKey)
	}
	if ref := from.FileKeyRef; ref != nil {
		at := at.Child("fileKeyRef")
		v.volumeName(at.Child("volumeName"), ref.VolumeName, s)
		v.text(at.Child("key"), ref.Key, validation.IsRelaxedEnvVarName)
		v.text(at.Child("path"), ref.Path, present)
		v.below(at.Child("path"), ref.Path)
	}
}

func (v *validator) fieldRef(at *field.Path, ref *v1.ObjectFieldSelector, fields []string) {
	if ref == nil {
		return
	}
	oneOf(v, at.Child("apiVersion"), ref.APIVersion, "v1")
	at = at.Child("fieldPath")
	of, rest, subscripted := strings.Cut(ref.FieldPath, "['")
	key, closed := strings.CutSuffix(rest, "']")
	switch {
	case subscripted && closed && of == "metadata.labels":
		v.invalid(at, ref.FieldPath, validation.IsQualifiedName(key)...)
	case subscripted && closed && of == "metadata.annotations":
		v.invalid(at, ref.FieldPath, validation.IsQualifiedName(strings.ToLower(key))...)
	default:
		oneOf(v, at, ref.FieldPath, fields...)
	}
}

// resourceRef checks a container resource's name.
func (v *validator) resourceRef(at *field.Path, ref *v1.ResourceFieldSelector) {
	at = at.Child("resource")
	kind, name, _ := strings.Cut(ref.Resource, ".")
	known := slices.Contains([]string{"cpu", "memory", "ephemeral-storage"}, name) || isHugePages(v1.ResourceName(name))
	switch {
	case ref.Resource == "":
		v.add(field.Required(at, ""))
	case kind != "limits" && kind != "requests" || !known:
		v.invalid(at, ref.Resource, "must be limits or requests of cpu, memory, ephemeral-storage or huge pages, such as limits.cpu")
	}
}
