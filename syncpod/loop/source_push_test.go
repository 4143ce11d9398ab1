package loop

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

func pushed(uid, image string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: uid, UID: types.UID("uid-" + uid)},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}},
	}
}

// runPush returns what was last delivered, in words, and how often something was.
func runPush(t *testing.T, p *Push) func() (string, int) {
	var got deliveries
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx, got.add) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func() (string, int) {
		s, n := got.last()
		var words []string
		for _, pod := range s.Pods {
			words = append(words, pod.Name+"="+pod.Spec.Containers[0].Image)
		}
		if s.Incomplete {
			words = append(words, "incomplete")
		}
		return strings.Join(words, " "), n
	}
}

func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPush("")
		last := runPush(t, p)
		expect := func(want string, times int) {
			t.Helper()
			if got, n := last(); got != want || n != times {
				t.Errorf("got %q in snapshot %d, want %q in %d", got, n, want, times)
			}
		}
		ok := func(err error) {
			t.Helper()
			if err != nil {
				t.Error(err)
			}
		}
		refused := func(err error, want string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error is %v, want one about %s", err, want)
			}
		}
		expect("", 0)
		ok(p.Update(pushed("b", "b:1")))
		expect("b=b:1 incomplete", 1)
		ok(p.Set(pushed("b", "b:1"), pushed("a", "a:1")))
		expect("b=b:1 a=a:1", 2)
		ok(p.Set(pushed("b", "b:1"), pushed("a", "a:1")))
		ok(p.Update(pushed("a", "a:1")))
		expect("b=b:1 a=a:1", 2)
		ok(p.Update(pushed("a", "a:2")))
		expect("b=b:1 a=a:2", 3)
		refused(p.Update(pushed("a", "")), "Pod ns/a: spec.containers[0].image")
		refused(p.Set(pushed("a", ""), pushed("c", "c:1"), nil, pushed("d", ""), pushed("c", "c:2")), "metadata.uid: Duplicate value")
		expect("a=a:2 c=c:1", 4)
		p.Delete("uid-c")
		p.Delete("uid-c")
		expect("a=a:2", 5)
		nameless := pushed("e", "e:1")
		nameless.UID = ""
		refused(p.Update(nameless), "metadata.uid")
		ok(p.Set())
		expect("", 6)
	})
}

func TestPushCopies(t *testing.T) {
	p := NewPush("queue")
	pod := pushed("a", "a:1")
	pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "api"}
	before := pod.DeepCopy()
	if err := p.Set(pod); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was changed")
	}
	got := p.snapshot().Pods[0]
	if got.Annotations[runtime.AnnotationConfigSource] != "queue" || got.Spec.RestartPolicy != v1.RestartPolicyAlways {
		t.Errorf("delivered is %+v", got)
	}
	if NewPush("").Name() != "api" || p.Name() != "queue" {
		t.Error("wrong names")
	}
}
