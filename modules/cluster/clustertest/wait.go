package clustertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// A Condition is a condition of a pod for which a test waits.
type Condition struct {
	name string
	met  func(pod *v1.Pod) bool
}

// String is the condition's name.
func (c Condition) String() string { return c.name }

// Pod conditions. Gone means that no pod with that name exists.
var (
	Ready     = Condition{"Ready", func(p *v1.Pod) bool { return p != nil && isReady(p) }}
	Running   = Condition{"Running", inPhase(v1.PodRunning)}
	Succeeded = Condition{"Succeeded", inPhase(v1.PodSucceeded)}
	Failed    = Condition{"Failed", inPhase(v1.PodFailed)}
	Gone      = Condition{"Gone", func(p *v1.Pod) bool { return p == nil }}
)

// That returns a custom condition. met gets nil if no pod with that name
// exists.
func That(name string, met func(pod *v1.Pod) bool) Condition { return Condition{name, met} }

func inPhase(phase v1.PodPhase) func(*v1.Pod) bool {
	return func(p *v1.Pod) bool { return p != nil && p.Status.Phase == phase }
}

func isReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// WaitFor waits until a pod, NAMESPACE/NAME, meets a condition. If that takes too long, the test fails with the agent's
// explanation, the pod's status and its events.
func (c *Cluster) WaitFor(t testing.TB, pod string, want Condition, within time.Duration) {
	t.Helper()
	var last *v1.Pod
	var failed error
	met := poll(t.Context(), within, func(ctx context.Context) bool {
		last, failed = c.get(ctx, pod)
		return failed == nil && want.met(last)
	})
	if !met {
		t.Fatalf("pod %s is not %v after %v\n%s", pod, want, within, c.describe(pod, last, failed))
	}
}

// Eventually waits until a function returns true. If that takes too long, the test fails.
func (c *Cluster) Eventually(t testing.TB, what string, within time.Duration, met func(ctx context.Context) bool) {
	t.Helper()
	if !poll(t.Context(), within, met) {
		t.Fatalf("not after %v: %s", within, what)
	}
}

// firstPoll and lastPoll are the shortest and the longest polling interval.
const firstPoll, lastPoll = 20 * time.Millisecond, time.Second

func poll(ctx context.Context, within time.Duration, met func(context.Context) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for pause := firstPoll; ; pause = min(2*pause, lastPoll) {
		if met(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// get returns a pod, nil if it does not exist.
func (c *Cluster) get(ctx context.Context, name string) (*v1.Pod, error) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok {
		return nil, fmt.Errorf("pod %q: want NAMESPACE/NAME", namespace)
	}
	pod, err := c.kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// describe returns the agent's explanation for a pod, and the pod's status and events, for a
// failure message.
func (c *Cluster) describe(name string, pod *v1.Pod, failed error) string {
	var b strings.Builder
	switch {
	case failed != nil && !errors.Is(failed, context.DeadlineExceeded):
		fmt.Fprintf(&b, "the API server: %v\n", failed)
	case pod == nil:
		return "there is no such pod"
	}
	if pod == nil {
		return b.String()
	}
	fmt.Fprintf(&b, "phase %s, node %q, deleted %v\n", pod.Status.Phase, pod.Spec.NodeName, pod.DeletionTimestamp != nil)
	for _, condition := range pod.Status.Conditions {
		fmt.Fprintf(&b, "condition %s is %s: %s %s\n", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		fmt.Fprintf(&b, "container %s: ready %v, restarts %d, %s\n", s.Name, s.Ready, s.RestartCount, stateOf(s.State))
	}
	if node := c.fleet.Node(pod.Spec.NodeName); node != nil {
		fmt.Fprintf(&b, "\n%s says:\n%s\n", pod.Spec.NodeName, strings.TrimSpace(node.Explain(pod)))
	}
	b.WriteString(c.eventsOf(pod))
	return b.String()
}

func stateOf(s v1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running since " + s.Running.StartedAt.Format(time.TimeOnly)
	case s.Terminated != nil:
		return fmt.Sprintf("terminated with %d %s %s", s.Terminated.ExitCode, s.Terminated.Reason, s.Terminated.Message)
	case s.Waiting != nil:
		return "waiting: " + s.Waiting.Reason + " " + s.Waiting.Message
	}
	return "no state"
}

// eventsOf returns a line for each event of a pod, sorted by time.
func (c *Cluster) eventsOf(pod *v1.Pod) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's context may have ended
	defer cancel()
	list, err := c.kube.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(),
	})
	if err != nil {
		return "events: " + err.Error()
	}
	slices.SortStableFunc(list.Items, func(a, b v1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	var b strings.Builder
	b.WriteString("\nevents:\n")
	for _, e := range list.Items {
		fmt.Fprintf(&b, "%s  %s %s (%d) %s\n", e.LastTimestamp.Format(time.TimeOnly), e.Type, e.Reason, e.Count, e.Message)
	}
	return b.String()
}
