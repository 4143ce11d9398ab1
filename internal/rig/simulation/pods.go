package simulation

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest"
)

const (
	polite = "trap 'exit 0' TERM; sleep infinity & wait"
	deaf   = "trap '' TERM; sleep infinity"
)

// outcome is the final state of a pod that is not removed.
type outcome uint8

const (
	runs     outcome = iota // all its containers
	restarts                // one of its containers, again and again
	finishes
	never // never runs: the runtime rejects its calls
)

// kind is what pods do.
type kind struct {
	name string
	outcome
	make func(*v1.Pod)
	// refused is the call that the runtime refuses for each pod of a kind that never runs.
	refused critest.Method
}

var kinds = []kind{
	{name: "polite", outcome: runs, make: func(p *v1.Pod) { p.Spec.Containers = containers(polite) }},
	{name: "deaf", outcome: runs, make: func(p *v1.Pod) { p.Spec.Containers = containers(deaf) }},
	{name: "two", outcome: runs, make: func(p *v1.Pod) { p.Spec.Containers = containers(polite, deaf) }},
	{name: "crash", outcome: restarts, make: func(p *v1.Pod) { p.Spec.Containers = containers("sleep 3; exit 7") }},
	{name: "job", outcome: finishes, make: func(p *v1.Pod) { p.Spec.Containers = containers("sleep 20; exit 3") }},
	{name: "pair", outcome: finishes, make: func(p *v1.Pod) { p.Spec.Containers = containers("exit 0", "sleep 60") }},
	{name: "retry", outcome: finishes, make: func(p *v1.Pod) {
		p.Spec.Containers, p.Spec.RestartPolicy = containers("sleep 2", "sleep 30"), v1.RestartPolicyOnFailure
	}},
	{name: "deadline", outcome: finishes, make: func(p *v1.Pod) {
		p.Spec.Containers, p.Spec.ActiveDeadlineSeconds = containers(polite), seconds(40)
	}},
	{name: "init", outcome: runs, make: func(p *v1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = named("i", "sleep 2", "sleep 1"), containers(polite)
	}},
	{name: "initjob", outcome: finishes, make: func(p *v1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = named("i", "sleep 4"), containers("sleep 9")
	}},
	{name: "sidecar", outcome: runs, make: func(p *v1.Pod) {
		p.Spec.InitContainers = append(sidecars(polite), named("i", "sleep 1")...)
		p.Spec.Containers = containers(deaf)
	}},
	{name: "escorted", outcome: runs, make: func(p *v1.Pod) { p.Spec.InitContainers, p.Spec.Containers = sidecars(polite), containers(polite) }},
	{name: "helped", outcome: finishes, make: func(p *v1.Pod) {
		p.Spec.InitContainers, p.Spec.Containers = sidecars(polite, deaf), containers("sleep 15")
	}},
	{name: "hooks", outcome: runs, make: func(p *v1.Pod) {
		p.Spec.Containers = containers(polite)
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: handler("sleep", "1"), PreStop: handler("sleep", "60")}
	}},
	{name: "stuck", outcome: restarts, make: func(p *v1.Pod) {
		p.Spec.Containers = containers(polite)
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: handler("sleep", "infinity")}
	}},
	{name: "flip", outcome: runs, make: func(p *v1.Pod) {
		p.Spec.Containers = containers("while :; do touch /ready; sleep 21; rm -f /ready; sleep 17; done")
		p.Spec.Containers[0].ReadinessProbe = probe("/ready", 10, 1)
	}},
	{name: "sick", outcome: restarts, make: func(p *v1.Pod) {
		p.Spec.Containers = containers("touch /well; sleep 25; rm -f /well; sleep infinity")
		p.Spec.Containers[0].LivenessProbe = probe("/well", 5, 2)
	}},
	{name: "slow", outcome: runs, make: func(p *v1.Pod) {
		p.Spec.Containers = containers("sleep 12; touch /up; sleep infinity", polite)
		p.Spec.Containers[0].StartupProbe = probe("/up", 3, 30)
	}},
	{name: "together", outcome: restarts, make: func(p *v1.Pod) {
		p.Spec.Containers = containers("sleep 30; exit 42", polite)
		p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{
			Action:    v1.ContainerRestartRuleActionRestartAllContainers,
			ExitCodes: &v1.ContainerRestartRuleOnExitCodes{Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
		}}
		always := v1.ContainerRestartPolicyAlways // rules need a policy of the container's own
		p.Spec.Containers[0].RestartPolicy = &always
	}},
	{name: "imageless", outcome: never, refused: critest.PullImage, make: func(p *v1.Pod) { p.Spec.Containers = containers(polite) }},
	{name: "unmade", outcome: never, refused: critest.CreateContainer, make: func(p *v1.Pod) { p.Spec.Containers = containers(polite) }},
	{name: "homeless", outcome: never, refused: critest.RunPodSandbox, make: func(p *v1.Pod) { p.Spec.Containers = containers(polite) }},
}

// kindNamed finds a kind by its name.
func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}

func seconds(n int64) *int64 { return &n }

func handler(command ...string) *v1.LifecycleHandler {
	return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: command}}
}

// probe returns a probe that checks whether a file exists.
func probe(file string, period, failures int32) *v1.Probe {
	return &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", file}}},
		PeriodSeconds: period, FailureThreshold: failures,
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
		always := v1.ContainerRestartPolicyAlways
		all[i].RestartPolicy = &always
	}
	return all
}

// image returns the image of a container. Pods of one kind have the same images.
func image(p *v1.Pod, container string, version int) string {
	kind, _, _ := strings.Cut(string(p.UID), "-")
	return fmt.Sprintf("registry.test/%s-%s:%d", kind, container, version)
}

// newPod returns the n-th pod of a life, which belongs to no source yet. If its kind has no restart policy and
// the pod finishes, the policy is Never.
func newPod(n int, k kind) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint(k.name, n), UID: types.UID(fmt.Sprintf("%s-%d", k.name, n)),
			Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyAlways, TerminationGracePeriodSeconds: seconds(5)},
	}
	if k.outcome == finishes {
		p.Spec.RestartPolicy = v1.RestartPolicyNever
	}
	k.make(p)
	for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			containers[i].Image = image(p, containers[i].Name, 1)
		}
	}
	return p
}

// limit bounds the CPU of a container, in thousandths.
func limit(c *v1.Container, cpu int64) {
	c.Resources.Limits = v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
}
