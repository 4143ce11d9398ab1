package loop_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/source"
)

// parsedPods is a source that delivers pods as a program has parsed them.
type parsedPods chan []*v1.Pod

func (parsedPods) Name() string { return "program" }

func (p parsedPods) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case pods := <-p:
			deliver(source.Snapshot{Pods: pods})
		}
	}
}

// A source of a program's own delivers a pod with a quantity that nothing can be computed with: the agent
// reports the field, runs the other pods, and keeps the version before of a pod that ran.
func TestEndlessQuantitiesOfAPod(t *testing.T) {
	endless := resource.MustParse("1e1666660")
	for field, change := range map[string]func(*v1.PodSpec){
		"spec.containers[0].resources.limits[cpu]":      func(s *v1.PodSpec) { s.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: endless} },
		"spec.containers[0].resources.requests[memory]": func(s *v1.PodSpec) { s.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceMemory: endless} },
		"spec.overhead[memory]":                         func(s *v1.PodSpec) { s.Overhead = v1.ResourceList{v1.ResourceMemory: endless} },
		"spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor": func(s *v1.PodSpec) {
			s.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu", Divisor: endless}}}}
		},
	} {
		inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
			src := make(parsedPods)
			a := n.start([]source.Source{src}, nil)
			good, other := pod("program", "web", "u", forever), pod("program", "other", "v", forever)
			bad, worse := good.DeepCopy(), other.DeepCopy()
			change(&bad.Spec)
			worse.UID = "w"
			change(&worse.Spec)
			src <- []*v1.Pod{good}
			time.Sleep(time.Minute)
			n.wantRunning(1, "u")
			src <- []*v1.Pod{bad, other, worse, nil}
			time.Sleep(10 * time.Minute)
			n.wantRunning(1, "u", "v")
			n.wantRunning(0, "w")
			if h := a.Health(); h.OK() || strings.Count(h.String(), field+": Invalid value: a quantity has at most") != 2 {
				t.Errorf("health is %q, want the field %s of two pods", h, field)
			}
			src <- []*v1.Pod{good, other}
			synctest.Wait()
			if h := a.Health(); !h.OK() {
				t.Errorf("health is %q", h)
			}
		})
	}
}

// A deletion counts also if the version of the pod that has it cannot be computed with: the pod stops within the
// grace period of the deletion.
func TestDeletionWithAnEndlessQuantity(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := make(parsedPods)
		a := n.start([]source.Source{src}, nil)
		good := pod("program", "web", "u", "trap '' TERM; while true; do sleep 1; done")
		src <- []*v1.Pod{good}
		time.Sleep(time.Minute)
		n.wantRunning(1, "u")
		bad := good.DeepCopy()
		bad.Spec.Overhead = v1.ResourceList{v1.ResourceMemory: resource.MustParse("1e1666660")}
		bad.DeletionTimestamp, bad.DeletionGracePeriodSeconds = new(metav1.Now()), new(int64(3))
		src <- []*v1.Pod{bad}
		time.Sleep(2 * time.Second)
		n.wantRunning(1, "u")
		time.Sleep(5 * time.Second)
		n.wantRunning(0, "u")
		if h := a.Health(); !strings.Contains(h.String(), "spec.overhead[memory]") {
			t.Errorf("health is %q, want the field", h)
		}
		if good.DeletionTimestamp != nil {
			t.Error("the pod of an earlier snapshot was changed")
		}
	})
}
