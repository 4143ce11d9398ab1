// Package podtest builds pods for tests. Its functions are named after the fields that they set.
package podtest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Pod returns a pod of the namespace default whose UID is its name after "uid-". Unless a part adds containers, it has
// one that is named app.
func Pod(name string, parts ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID("uid-"+name)
	for _, part := range parts {
		part(pod)
	}
	if len(pod.Spec.Containers) == 0 {
		Container("app")(pod)
	}
	return pod
}

// Namespace sets the namespace.
func Namespace(namespace string) func(*v1.Pod) { return func(p *v1.Pod) { p.Namespace = namespace } }

// UID sets the UID.
func UID(uid types.UID) func(*v1.Pod) { return func(p *v1.Pod) { p.UID = uid } }

// NodeName sets the node.
func NodeName(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = name } }

// RestartPolicy sets the restart policy of the pod.
func RestartPolicy(policy v1.RestartPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.RestartPolicy = policy }
}

// GracePeriod sets the seconds that containers have to stop.
func GracePeriod(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

// Priority sets the priority.
func Priority(priority int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &priority } }

// Annotation adds an annotation.
func Annotation(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

// Volume adds a volume.
func Volume(name string, source v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source}) }
}

// Container adds a container with the image registry.test/app:1.
func Container(name string, parts ...func(*v1.Container)) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container(name, parts)) }
}

// InitContainer adds an init container like Container.
func InitContainer(name string, parts ...func(*v1.Container)) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, container(name, parts)) }
}

func container(name string, parts []func(*v1.Container)) v1.Container {
	c := v1.Container{Name: name, Image: "registry.test/app:1"}
	for _, part := range parts {
		part(&c)
	}
	return c
}

// Sidecar lets an init container restart always.
func Sidecar(c *v1.Container) { c.RestartPolicy = new(v1.ContainerRestartPolicyAlways) }

// Image sets the image.
func Image(image string) func(*v1.Container) { return func(c *v1.Container) { c.Image = image } }

// Script lets a shell run a script.
func Script(script string) func(*v1.Container) {
	return func(c *v1.Container) { c.Command = []string{"sh", "-c", script} }
}

// VolumeMount mounts a volume.
func VolumeMount(name, path string) func(*v1.Container) {
	return func(c *v1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: path})
	}
}

// Requests sets the requests, such as "cpu=2 memory=1Gi".
func Requests(amounts string) func(*v1.Container) {
	return func(c *v1.Container) { c.Resources.Requests = Resources(amounts) }
}

// Limits sets the limits, such as "cpu=2 memory=1Gi".
func Limits(amounts string) func(*v1.Container) {
	return func(c *v1.Container) { c.Resources.Limits = Resources(amounts) }
}

// Resources parses a list such as "cpu=2 memory=1Gi". It panics if an amount is not a quantity.
func Resources(amounts string) v1.ResourceList {
	list := v1.ResourceList{}
	for field := range strings.FieldsSeq(amounts) {
		name, amount, found := strings.Cut(field, "=")
		if !found {
			panic(fmt.Sprintf("podtest: %q is not a name and an amount", field))
		}
		list[v1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}
