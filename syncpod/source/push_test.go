package source

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/cri/critest/podtest"
	"github.com/podsync/podsync/syncpod/podspec"
)

func pushed(uid, image string) *v1.Pod {
	return podtest.Pod(uid, podtest.Namespace("ns"), podtest.Container("c", podtest.Image(image)))
}

// runPush returns a description of the last snapshot, and the number of deliveries.
func runPush(t *testing.T, p *Push) func() (string, int) {
	var got deliveries
	must.Run(t, func(ctx context.Context) error { return p.Run(ctx, got.add) })
	return got.words
}

func TestPush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPush()
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
	p := NewStaticPush("queue")
	pod := pushed("a", "a:1")
	pod.Annotations = map[string]string{runtime.AnnotationConfigSource: "api"}
	before := pod.DeepCopy()
	must.Do(t, p.Set(pod))
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was changed")
	}
	got := p.snapshots()[0].Pods[0]
	if got.Annotations[runtime.AnnotationConfigSource] != "queue" || got.Spec.RestartPolicy != v1.RestartPolicyAlways {
		t.Errorf("delivered is %+v, want %q and RestartPolicy %v", got, "queue", v1.RestartPolicyAlways)
	}
	if NewPush().Name() != "api" || p.Name() != "queue" {
		t.Error("wrong names")
	}
}

// Versions of a pod whose specs are equal share one, because most differ only in their status.
func TestVersionsShareTheirSpec(t *testing.T) {
	p := NewPush()
	var containers []*v1.Container
	for _, image := range []string{"a", "b"} {
		for _, phase := range []v1.PodPhase{v1.PodPending, v1.PodRunning} {
			pod := pushed("x", image)
			pod.Status.Phase = phase
			must.Do(t, p.Set(pod))
			containers = append(containers, &p.snapshots()[0].Pods[0].Spec.Containers[0])
		}
	}
	if containers[0] != containers[1] || containers[1] == containers[2] || containers[2] != containers[3] || containers[0].Image != "a" {
		t.Errorf("the containers of the versions are at %p", containers)
	}
}

// The program's cache keeps a pod from an API server as long as the Push does, so a second copy would be wasted. A
// missing annotation and missing defaults are set in a copy.
func TestAdmittedPodsAreShared(t *testing.T) {
	status := v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady}}}
	whole, partial := podspec.Default(pushed("whole", "a:1")), pushed("partial", "a:1")
	whole.Status, partial.Status = status, status
	before := []*v1.Pod{whole.DeepCopy(), partial.DeepCopy()}
	copies := NewPush()
	must.Do(t, copies.Set(before...))
	p := NewAdmittedPush()
	must.Do(t, p.Set(whole, partial))
	all := p.snapshots()[0].Pods
	if &all[0].Spec.Containers[0] != &whole.Spec.Containers[0] || &all[0].Status.Conditions[0] != &status.Conditions[0] || &all[1].Status.Conditions[0] != &status.Conditions[0] {
		t.Error("the Push copied a spec or a status that needs no change")
	}
	if !reflect.DeepEqual([]*v1.Pod{whole, partial}, before) {
		t.Error("the Push changed a pod of the program")
	}
	if want := copies.snapshots()[0].Pods; !reflect.DeepEqual(all, want) {
		t.Errorf("the pods are delivered as %+v, want %+v", all, want)
	}
	second := NewAdmittedPush()
	must.Do(t, second.Set(all...))
	for i, pod := range second.snapshots()[0].Pods {
		if pod != all[i] {
			t.Errorf("the Push copied pod %s, which needs no change", pod.Name)
		}
	}
	next := whole.DeepCopy()
	next.Status.Phase = v1.PodRunning
	must.Do(t, p.Update(next))
	for _, pod := range p.snapshots()[0].Pods {
		if pod.Name == "whole" && &pod.Spec.Containers[0] != &next.Spec.Containers[0] {
			t.Error("the Push keeps the spec of the first version, which the program has dropped")
		}
	}
}

// The last update of a pod is delivered before its removal, unless the pod is new
// and would only be started.
func TestPushDeliversTheLastWord(t *testing.T) {
	image := func(pod *v1.Pod, image string) *v1.Pod {
		pod = pod.DeepCopy()
		pod.Spec.Containers[0].Image = image
		return pod
	}
	for name, tc := range map[string]struct {
		change func(p *Push, a, deleted *v1.Pod)
		want   string
	}{
		"deleted, then removed":         {func(p *Push, _, deleted *v1.Pod) { p.Update(deleted); p.Delete("uid-a") }, "[a=gone] []"},
		"changed, then removed":         {func(p *Push, a, _ *v1.Pod) { p.Update(image(a, "a:2")); p.Delete("uid-a") }, "[a=a:2] []"},
		"deleted, then not set":         {func(p *Push, _, deleted *v1.Pod) { p.Update(deleted); p.Set() }, "[a=gone] []"},
		"set as deleted, then not set":  {func(p *Push, _, deleted *v1.Pod) { p.Set(deleted); p.Set() }, "[a=gone] []"},
		"removed":                       {func(p *Push, _, _ *v1.Pod) { p.Delete("uid-a") }, "[]"},
		"deleted, removed, added again": {func(p *Push, a, deleted *v1.Pod) { p.Update(deleted); p.Delete("uid-a"); p.Update(image(a, "a:3")) }, "[a=a:3]"},
		"comes and goes":                {func(p *Push, _, _ *v1.Pod) { p.Update(pushed("b", "b:1")); p.Delete("uid-b") }, ""},
		"comes deleted and goes": {func(p *Push, a, deleted *v1.Pod) {
			b := image(deleted, "b:1")
			b.Name, b.UID = "b", "uid-b"
			p.Update(b)
			p.Delete("uid-b")
		}, "[a=a:1 b=b:1] [a=a:1]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPush()
				var got []string
				changed := make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				defer synctest.Wait()
				defer cancel()
				go p.Run(ctx, func(s Snapshot) {
					var words []string
					for _, pod := range s.Pods {
						words = append(words, pod.Name+"="+pod.Spec.Containers[0].Image)
					}
					got = append(got, "["+strings.Join(words, " ")+"]")
					<-changed // or else one of several changes may be delivered before the next
				})
				a := pushed("a", "a:1")
				must.Do(t, p.Set(a))
				synctest.Wait()
				deleted := image(a, "gone")
				deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
				tc.change(p, a, deleted)
				close(changed)
				synctest.Wait()
				if text := strings.Join(got[1:], " "); text != tc.want {
					t.Errorf("delivered %s, want %s", text, tc.want)
				}
			})
		})
	}
}

// E3: a Push is a source of the next agent, too, which begins with the pods that it has.
func TestE3_PushRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPush()
		must.Do(t, p.Set(pushed("a", "a:1"), pushed("b", "b:1")))
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			var got []string
			go func() {
				done <- p.Run(ctx, func(s Snapshot) {
					for _, pod := range s.Pods {
						got = append(got, pod.Name)
					}
				})
			}()
			synctest.Wait()
			cancel()
			must.Do(t, <-done)
			if want := []string{"a", "b"}; !slices.Equal(got, want) {
				t.Errorf("an agent got %v, want %v", got, want)
			}
		}
	})
}
