package source

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (d *decoder) decodeConfigMap(raw []byte, h *head) {
	c, _ := fill[v1.ConfigMap](d, raw, h)
	if c == nil {
		return
	}
	problems := append(d.misnamed(h), badKeys("data", c.Data)...)
	if problems = append(problems, badKeys("binaryData", c.BinaryData)...); len(problems) > 0 {
		d.refuse(h, problems.ToAggregate())
		return
	}
	d.add(h, c)
}

func (d *decoder) decodeSecret(raw []byte, h *head) {
	s, _ := fill[v1.Secret](d, raw, h)
	if s == nil {
		return
	}
	problems := append(d.misnamed(h), badKeys("data", s.Data)...)
	if problems = append(problems, badKeys("stringData", s.StringData)...); len(problems) > 0 {
		d.refuse(h, problems.ToAggregate())
		return
	}
	// As in an API server, stringData replaces values in data.
	data := make(map[string][]byte, len(s.Data)+len(s.StringData))
	maps.Copy(data, s.Data)
	for key, text := range s.StringData {
		data[key] = []byte(text)
	}
	s.Data, s.StringData = data, nil
	d.add(h, s)
}

// misnamed returns the reasons why no pod can refer to an object other than a pod.
func (d *decoder) misnamed(h *head) (problems field.ErrorList) {
	at := field.NewPath("metadata")
	for _, p := range validation.IsDNS1123Subdomain(h.Metadata.Name) {
		problems = append(problems, field.Invalid(at.Child("name"), h.Metadata.Name, p))
	}
	for _, p := range validation.IsDNS1123Label(d.keyOf(h).namespace) {
		problems = append(problems, field.Invalid(at.Child("namespace"), h.Metadata.Namespace, p))
	}
	return problems
}

// badKeys returns the keys in a ConfigMap or Secret that an API server rejects, because they cannot be file names.
func badKeys[V any](name string, data map[string]V) (problems field.ErrorList) {
	for _, key := range slices.Sorted(maps.Keys(data)) {
		if why := validation.IsConfigMapKey(key); len(why) > 0 {
			problems = append(problems, field.Invalid(field.NewPath(name).Key(key), key, strings.Join(why, ", ")))
		}
	}
	return problems
}
