package agenttest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	polite = "trap 'exit 0' TERM; sleep infinity & wait"
	deaf   = "trap '' TERM; sleep infinity"
	// leaving takes three seconds to end. Its exit code shows that it was given that time.
	leaving = "trap 'sleep 3; exit 0' TERM; sleep infinity & wait"
)

// outcome is a desired pod's final state.
type outcome uint8

const (
	runs     outcome = iota // all its containers run
	restarts                // one of its containers restarts again and again
	finishes
)

// kind is the behaviour of the pods of one kind.
type kind struct {
	name string
	outcome
	make func(*v1.PodSpec)
}

// kinds are all kinds. Names of sidecars begin with s, of init containers with i, and of other
// containers with c: checks and stories distinguish them by that.
var kinds = []kind{
	{"web", runs, func(s *v1.PodSpec) { s.Containers = containers(polite) }},
	{"deaf", runs, func(s *v1.PodSpec) { s.Containers = containers(deaf) }},
	{"leaving", runs, func(s *v1.PodSpec) {
		s.Containers, s.TerminationGracePeriodSeconds = containers(leaving), new(int64(8))
	}},
	{"two", runs, func(s *v1.PodSpec) { s.Containers = containers(polite, polite) }},
	{"crash", restarts, func(s *v1.PodSpec) { s.Containers = containers("sleep 1; exit 7", polite) }},
	{"job", finishes, func(s *v1.PodSpec) { s.Containers = containers("sleep 8; exit 3") }},
	{"retry", restarts, func(s *v1.PodSpec) {
		s.Containers, s.RestartPolicy = containers("sleep 3", "sleep 2; exit 5"), v1.RestartPolicyOnFailure
	}},
	{"init", runs, func(s *v1.PodSpec) {
		s.InitContainers, s.Containers = named("i", "sleep 2", "sleep 1"), containers(polite)
	}},
	{"initjob", finishes, func(s *v1.PodSpec) { s.InitContainers, s.Containers = named("i", "sleep 2"), containers("sleep 6") }},
	{"sidecar", runs, func(s *v1.PodSpec) {
		s.InitContainers = append(sidecars(polite, polite), named("i", "sleep 1")...)
		s.Containers, s.TerminationGracePeriodSeconds = containers(leaving), new(int64(8))
	}},
	{"helped", finishes, func(s *v1.PodSpec) { s.InitContainers, s.Containers = sidecars(polite), containers("sleep 12") }},
	{"mended", finishes, func(s *v1.PodSpec) {
		s.InitContainers, s.Containers = sidecars("sleep 6; exit 4"), containers("sleep 60")
	}},
	{"hooked", runs, func(s *v1.PodSpec) {
		s.Containers, s.TerminationGracePeriodSeconds = containers(polite), new(int64(8))
		s.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: handler("echo", "hello"), PreStop: handler("sleep", "2")}
	}},
	{"hung", runs, func(s *v1.PodSpec) {
		s.Containers = containers(polite)
		s.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: handler("sleep", "120")}
	}},
	{"sick", restarts, func(s *v1.PodSpec) {
		s.Containers = containers("touch /well; sleep 8; rm -f /well; sleep infinity")
		s.Containers[0].LivenessProbe = probe(1, 3, "test", "-e", "/well")
	}},
	{"slow", runs, func(s *v1.PodSpec) {
		s.Containers = containers("sleep 6; touch /up; sleep infinity")
		s.Containers[0].StartupProbe = probe(1, 60, "test", "-e", "/up")
		s.Containers[0].LivenessProbe = probe(2, 3, "test", "-f", "/up")
	}},
	{"unready", runs, func(s *v1.PodSpec) {
		s.Containers = containers(polite)
		s.Containers[0].ReadinessProbe = probe(2, 1, "test", "-e", "/never")
	}},
	{"ready", runs, func(s *v1.PodSpec) {
		s.Containers = containers("sleep 3; touch /ready; sleep infinity")
		s.Containers[0].ReadinessProbe = probe(1, 1, "test", "-e", "/ready")
	}},
	{"deadline", finishes, func(s *v1.PodSpec) { s.Containers, s.ActiveDeadlineSeconds = containers(polite), new(int64(10)) }},
	{"fresh", restarts, func(s *v1.PodSpec) {
		s.Containers = containers("sleep 4; exit 1")
		s.Containers[0].ImagePullPolicy = v1.PullAlways
	}},
	{"local", runs, func(s *v1.PodSpec) {
		s.Containers = containers(polite)
		s.Containers[0].ImagePullPolicy = v1.PullNever
	}},
}

func handler(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

func probe(period, failures int32, command ...string) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: command}},
		PeriodSeconds: period, FailureThreshold: failures, TimeoutSeconds: 5,
	}
}

// containers returns one container for each script: c0, c1 and so on.
func containers(scripts ...string) []v1.Container { return named("c", scripts...) }

func named(prefix string, scripts ...string) []v1.Container {
	var all []v1.Container
	for i, script := range scripts {
		all = append(all, v1.Container{
			Name: fmt.Sprint(prefix, i), ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sh", "-c", script},
		})
	}
	return all
}

func sidecars(scripts ...string) []v1.Container {
	all := named("s", scripts...)
	for i := range all {
		all[i].RestartPolicy = new(v1.ContainerRestartPolicyAlways)
	}
	return all
}

// kindOf returns the kind of a pod by its name: the name of the kind, optionally followed by a
// number: web, web-2.
func kindOf(pod string) (kind, bool) {
	name, _, _ := strings.Cut(pod, "-")
	for _, k := range kinds {
		if k.name == name {
			return k, true
		}
	}
	return kind{}, false
}

// newPod returns the pod with a name, with one of its images' versions.
func newPod(name string, version int) *v1.Pod {
	k, _ := kindOf(name)
	p := &v1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("referee-" + name)},
		Spec:       v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(4))},
	}
	if k.outcome == finishes {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
	}
	k.make(&p.Spec)
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Image = imageOf(k, list[i].Name, 1)
		}
	}
	p.Spec.Containers[0].Image = imageOf(k, p.Spec.Containers[0].Name, version)
	return p
}

func imageOf(k kind, container string, version int) string {
	return fmt.Sprintf("registry.test/%s-%s:%d", k.name, container, version)
}

// versions is the number of versions of an image.
const versions = 3

// presentImages returns the images that are present from the start: those of pods that may not pull,
// and the first versions of those of pods that need not pull.
func presentImages() []string {
	var all []string
	for _, k := range kinds {
		p := newPod(k.name, 1)
		for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
			if c.ImagePullPolicy != v1.PullAlways {
				all = append(all, c.Image)
			}
		}
	}
	return all
}

// containerNamed returns the container in a pod with a name.
func containerNamed(p *v1.Pod, name string) (v1.Container, bool) {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			if c.Name == name {
				return c, true
			}
		}
	}
	return v1.Container{}, false
}

func isSidecar(name string) bool { return strings.HasPrefix(name, "s") }

func isInit(name string) bool { return strings.HasPrefix(name, "i") }
