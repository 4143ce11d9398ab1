package simulation

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

const (
	polite = "trap 'exit 0' TERM; sleep infinity & wait"
	deaf   = "trap '' TERM; sleep infinity"
)

// kinds are what pods do.
var kinds = []struct {
	name string
	make func(*v1.Pod)
}{
	{"polite", func(p *v1.Pod) { p.Spec.Containers = containers(polite) }},
	{"deaf", func(p *v1.Pod) { p.Spec.Containers = containers(deaf) }},
	{"two", func(p *v1.Pod) { p.Spec.Containers = containers(polite, deaf) }},
	{"crash", func(p *v1.Pod) { p.Spec.Containers = containers("sleep 3; exit 7") }},
	{"job", func(p *v1.Pod) {
		p.Spec.Containers, p.Spec.RestartPolicy = containers("sleep 20; exit 3"), v1.RestartPolicyNever
	}},
	{"pair", func(p *v1.Pod) {
		p.Spec.Containers, p.Spec.RestartPolicy = containers("exit 0", "sleep 60"), v1.RestartPolicyNever
	}},
	{"retry", func(p *v1.Pod) {
		p.Spec.Containers, p.Spec.RestartPolicy = containers("sleep 2", "sleep 30"), v1.RestartPolicyOnFailure
	}},
	{"init", func(p *v1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = containers("sleep 2", "sleep 1"), containers(polite)
		p.Spec.InitContainers[0].Name, p.Spec.InitContainers[1].Name = "i0", "i1"
	}},
	{"sidecar", func(p *v1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = containers(polite, "sleep 1"), containers(deaf)
		p.Spec.InitContainers[0].Name, p.Spec.InitContainers[1].Name = "s0", "i1"
		always := v1.ContainerRestartPolicyAlways
		p.Spec.InitContainers[0].RestartPolicy = &always
	}},
	{"hooks", func(p *v1.Pod) {
		p.Spec.Containers = containers(polite)
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{
			PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "1"}}},
			PreStop:   &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sleep", "60"}}},
		}
	}},
}

// containers returns one container for each script.
func containers(scripts ...string) []v1.Container {
	var all []v1.Container
	for i, script := range scripts {
		all = append(all, v1.Container{
			Name: fmt.Sprintf("c%d", i), ImagePullPolicy: v1.PullIfNotPresent,
			Command: []string{"sh", "-c", script},
		})
	}
	return all
}

// image is that of a container. Pods of one kind have the same ones.
func image(p *v1.Pod, container string, version int) string {
	kind, _, _ := strings.Cut(string(p.UID), "-")
	return fmt.Sprintf("registry.test/%s-%s:%d", kind, container, version)
}

// newPod makes the n-th pod of a life.
func newPod(n, kind int, source string) *v1.Pod {
	grace := int64(5)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s%d", kinds[kind].name, n), UID: types.UID(fmt.Sprintf("%s-%d", kinds[kind].name, n)),
			Annotations: map[string]string{runtime.AnnotationConfigSource: source},
		},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace},
	}
	kinds[kind].make(p)
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i].Image = image(p, containers[i].Name, 1)
		}
	}
	return p
}
