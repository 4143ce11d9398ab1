package podspec_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podsync/podsync/syncpod/podspec"
)

// endless is a quantity that the API's parser accepts, and that no program has ever finished printing.
const endless = "1e1666660"

// plant puts a quantity in one place of a value.
type plant struct {
	path string
	in   func(v reflect.Value, q resource.Quantity)
}

// plants returns the places of a type that hold a quantity.
func plants(t reflect.Type, path string) (all []plant) {
	var inner []plant
	var reach func(v reflect.Value, in func(reflect.Value))
	switch t.Kind() {
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() {
			return []plant{{path, func(v reflect.Value, q resource.Quantity) { v.Set(reflect.ValueOf(q)) }}}
		}
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			at := path
			if name != "" {
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			for _, p := range plants(t.Field(i).Type, at) {
				all = append(all, plant{p.path, func(v reflect.Value, q resource.Quantity) { p.in(v.Field(i), q) }})
			}
		}
		return all
	case reflect.Pointer:
		inner = plants(t.Elem(), path)
		reach = func(v reflect.Value, in func(reflect.Value)) { v.Set(reflect.New(t.Elem())); in(v.Elem()) }
	case reflect.Slice:
		inner = plants(t.Elem(), path+"[0]")
		reach = func(v reflect.Value, in func(reflect.Value)) { v.Set(reflect.MakeSlice(t, 1, 1)); in(v.Index(0)) }
	case reflect.Map:
		inner = plants(t.Elem(), path+"[cpu]")
		reach = func(v reflect.Value, in func(reflect.Value)) {
			value := reflect.New(t.Elem()).Elem()
			in(value)
			v.Set(reflect.MakeMap(t))
			v.SetMapIndex(reflect.ValueOf("cpu").Convert(t.Key()), value)
		}
	}
	for _, p := range inner {
		all = append(all, plant{p.path, func(v reflect.Value, q resource.Quantity) { reach(v, func(v reflect.Value) { p.in(v, q) }) }})
	}
	return all
}

// Wherever a pod has a quantity that nothing can be computed with, each function that a pod passes on its
// way in ends at once, and the error names the field.
func TestEndlessQuantities(t *testing.T) {
	places := plants(reflect.TypeFor[v1.Pod](), "")
	if len(places) < 30 {
		t.Fatalf("%d places of a pod hold a quantity, want more", len(places))
	}
	begun := time.Now()
	for _, p := range places {
		pod := &v1.Pod{}
		pod.Name, pod.Namespace, pod.UID = "web", "shop", "u"
		p.in(reflect.ValueOf(pod).Elem(), resource.MustParse(endless))
		for name, check := range map[string]func(*v1.Pod) error{
			"ValidateQuantities": podspec.ValidateQuantities,
			"Validate":           func(pod *v1.Pod) error { return podspec.Validate(podspec.Default(pod)) },
			"ValidateAdmitted":   func(pod *v1.Pod) error { return podspec.ValidateAdmitted(podspec.Default(pod)) },
		} {
			if err := check(pod); err == nil || !strings.Contains(err.Error(), p.path+": Invalid value: a quantity has at most") {
				t.Errorf("%s: %s: error %.300v, want one that names the field", p.path, name, err)
			}
		}
		pod.UID = ""
		if static := podspec.Static(pod, "node", podspec.Source{Location: "/f"}); strings.HasPrefix(p.path, "spec.") && static.UID != "" {
			t.Errorf("%s: Static made the UID %q of it", p.path, static.UID)
		}
		p.in(reflect.ValueOf(pod).Elem(), resource.MustParse("1"))
		if err := podspec.ValidateQuantities(pod); err != nil {
			t.Errorf("%s: %v for 1", p.path, err)
		}
	}
	if took := time.Since(begun); took > 10*time.Second { // Cmp takes one second of each, and String hours
		t.Errorf("all of it took %v", took)
	}
}

// The size in the name of a huge page resource is a quantity, too.
func TestEndlessHugePages(t *testing.T) {
	for at, list := range map[string]func(*v1.Pod) *v1.ResourceList{
		"spec.overhead":                       func(p *v1.Pod) *v1.ResourceList { return &p.Spec.Overhead },
		"spec.containers[0].resources.limits": func(p *v1.Pod) *v1.ResourceList { return &p.Spec.Containers[0].Resources.Limits },
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Containers: make([]v1.Container, 1)}}
		*list(pod) = v1.ResourceList{"hugepages-" + endless: resource.MustParse("0")}
		want := fmt.Sprintf("%s[hugepages-%s]: Invalid value: \"hugepages-%[2]s\": the exponent of a quantity has at most 2 digits", at, endless)
		for name, check := range map[string]func(*v1.Pod) error{"Validate": podspec.Validate, "ValidateAdmitted": podspec.ValidateAdmitted} {
			if err := check(podspec.Default(pod)); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q in it", name, err, want)
			}
		}
	}
}

func TestParseQuantity(t *testing.T) {
	if q, err := podspec.ParseQuantity("1Gi"); err != nil || q.Value() != 1<<30 {
		t.Errorf("%v, %v, want 1Gi", q, err)
	}
	for text, want := range map[string]string{"1e-266666600": "exponent", "much": "such as 2, 500m", strings.Repeat("1", 101): "characters"} {
		if _, err := podspec.ParseQuantity(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", text, err, want)
		}
	}
}
