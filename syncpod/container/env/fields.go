package env

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// field returns a field's value in the pod (the downward API).
func (r *resolver) field(ref *v1.ObjectFieldSelector) (string, error) {
	if ref.APIVersion != "" && ref.APIVersion != "v1" {
		return "", fmt.Errorf("fieldRef.apiVersion %q is not known, want v1", ref.APIVersion)
	}
	pod := r.in.Pod
	switch ref.FieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	case "spec.nodeName", "spec.host":
		return pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.podIP":
		return first(r.in.PodIPs), nil
	case "status.podIPs":
		return strings.Join(r.in.PodIPs, ","), nil
	case "status.hostIP":
		return first(r.in.HostIPs), r.needHostIPs()
	case "status.hostIPs":
		return strings.Join(r.in.HostIPs, ","), r.needHostIPs()
	}
	return subscript(pod, ref.FieldPath)
}

func (r *resolver) needHostIPs() error {
	if len(r.in.HostIPs) == 0 {
		return errors.New("the addresses of the node are not known")
	}
	return nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript returns one label or annotation, "" if the pod does not have it.
func subscript(pod *v1.Pod, path string) (string, error) {
	field, rest, found := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	if !found || !closed {
		return "", unknownField(path)
	}
	var problems []string
	var values map[string]string
	switch field {
	case "metadata.labels":
		problems, values = validation.IsQualifiedName(key), pod.Labels
	case "metadata.annotations":
		// An annotation's key prefix may have upper-case letters.
		problems, values = validation.IsQualifiedName(strings.ToLower(key)), pod.Annotations
	default:
		return "", unknownField(path)
	}
	if len(problems) > 0 {
		return "", fmt.Errorf("fieldRef.fieldPath %q: %s", path, strings.Join(problems, "; "))
	}
	return values[key], nil
}

func unknownField(path string) error {
	return fmt.Errorf("fieldRef.fieldPath %q is not a field that can be referred to", path)
}

// lines returns the map as lines key="value", sorted.
func lines(m map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(list, "\n")
}
