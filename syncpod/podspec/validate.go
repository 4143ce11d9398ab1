package podspec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate returns a pod's errors by the API's rules that a node relies on, or nil. The error
// joins them, each a *field.Error that names the field; its Errors method lists them in a
// deterministic order. Values that may be secrets are not repeated.
//
// The pod must have its defaults; see [Default]. Use [ValidateAdmitted] for a pod that an API
// server has admitted.
func Validate(pod *v1.Pod) error {
	if pod == nil {
		return field.Required(field.NewPath("pod"), "")
	}
	var v validator
	if v.size(pod) && v.quantities(pod) { // other rules compare and print them
		v.metadata(pod)
		v.spec(&pod.Spec)
	}
	return v.errs.ToAggregate()
}

// validator collects errors.
type validator struct {
	errs field.ErrorList
}

func (v *validator) add(errs ...*field.Error) { v.errs = append(v.errs, errs...) }

// invalid adds an error for each problem of a value. Functions of package validation return such problems.
func (v *validator) invalid(at *field.Path, value any, problems ...string) {
	for _, p := range problems {
		v.add(field.Invalid(at, value, p))
	}
}

// text checks a text that is required.
func (v *validator) text(at *field.Path, value string, check func(string) []string) {
	if value == "" {
		v.add(field.Required(at, ""))
		return
	}
	v.invalid(at, value, check(value)...)
}

// optional checks a text that may be empty.
func (v *validator) optional(at *field.Path, value string, check func(string) []string) {
	if value != "" {
		v.invalid(at, value, check(value)...)
	}
}

// present accepts every text.
func present(string) []string { return nil }

// inRange checks a number, which may be nil.
func inRange[T int32 | int64](at *field.Path, value *T, low, high T) field.ErrorList {
	if value == nil || *value >= low && *value <= high {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *value, fmt.Sprintf("must be from %d to %d", low, high))}
}

// oneOf checks a value of a fixed set. A field that has a default is required.
func oneOf[T ~string](v *validator, at *field.Path, value T, known ...T) {
	switch {
	case value == "":
		v.add(field.Required(at, ""))
	case !slices.Contains(known, value):
		v.add(field.NotSupported(at, value, known))
	}
}

// unique returns a check for duplicates.
func (v *validator) unique() func(at *field.Path, value string) {
	seen := map[string]bool{}
	return func(at *field.Path, value string) {
		if seen[value] && value != "" {
			v.add(field.Duplicate(at, value))
		}
		seen[value] = true
	}
}

// exactlyOne checks that one pointer of a struct of alternatives is set.
func (v *validator) exactlyOne(at *field.Path, alternatives any) {
	var set, known []string
	s := reflect.ValueOf(alternatives)
	for i := range s.NumField() {
		if f := s.Field(i); f.Kind() == reflect.Pointer {
			name, _, _ := strings.Cut(s.Type().Field(i).Tag.Get("json"), ",")
			known = append(known, name)
			if !f.IsNil() {
				set = append(set, name)
			}
		}
	}
	switch {
	case len(set) == 0:
		const most = 6 // volumes have 30
		if len(known) > most {
			known = append(known[:most:most], "...")
		}
		v.add(field.Required(at, "must have one of "+strings.Join(known, ", ")))
	case len(set) > 1:
		v.add(field.Forbidden(at, "must have only one of "+strings.Join(set, ", ")))
	}
}

// maxAnnotations is the maximum size of an object's annotations, in bytes.
const maxAnnotations = 256 << 10

func (v *validator) metadata(pod *v1.Pod) {
	v.identity(pod)
	at := field.NewPath("metadata")
	v.labels(at.Child("labels"), pod.Labels)
	v.annotations(at.Child("annotations"), pod.Annotations)
	v.add(inRange(at.Child("deletionGracePeriodSeconds"), pod.DeletionGracePeriodSeconds, 0, maxSeconds)...)
}

// identity checks the pod's names.
func (v *validator) identity(pod *v1.Pod) {
	at := field.NewPath("metadata")
	v.text(at.Child("name"), pod.Name, validation.IsDNS1123Subdomain)
	v.text(at.Child("namespace"), pod.Namespace, validation.IsDNS1123Label)
	// The API accepts longer UIDs, but this one becomes the value of a label and part of paths.
	if uid := at.Child("uid"); len(pod.UID) > validation.LabelValueMaxLength {
		v.add(field.TooLong(uid, "", validation.LabelValueMaxLength))
	} else {
		v.optional(uid, string(pod.UID), validation.IsValidLabelValue)
	}
}

func (v *validator) labels(at *field.Path, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		v.invalid(at, key, validation.IsQualifiedName(key)...)
		v.invalid(at.Key(key), labels[key], validation.IsValidLabelValue(labels[key])...)
	}
}

func (v *validator) annotations(at *field.Path, annotations map[string]string) {
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		v.invalid(at, key, validation.IsQualifiedName(strings.ToLower(key))...)
		size += len(key) + len(annotations[key])
	}
	if size > maxAnnotations {
		v.add(field.TooLong(at, "", maxAnnotations))
	}
}
