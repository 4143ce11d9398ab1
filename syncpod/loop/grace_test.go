package loop_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/syncpod/source"
)

// W3: the last grace period counts, regardless of other changes in the same snapshot.
func TestW3_GraceOfADeletionInTheSameBreath(t *testing.T) {
	for name, remove := range map[string]func(t *testing.T, src *source.Push, deleted, shorter *v1.Pod){
		"deleted":               func(t *testing.T, src *source.Push, deleted, _ *v1.Pod) { update(t, src, deleted) },
		"deleted and removed":   func(t *testing.T, src *source.Push, deleted, _ *v1.Pod) { update(t, src, deleted); src.Delete("u") },
		"deleted and not set":   func(t *testing.T, src *source.Push, deleted, _ *v1.Pod) { update(t, src, deleted); set(t, src) },
		"shortened and removed": func(t *testing.T, src *source.Push, _, shorter *v1.Pod) { update(t, src, shorter); src.Delete("u") },
	} {
		for _, from := range []string{runtime.ConfigSourceAPI, "file"} {
			t.Run(name+" of "+from, func(t *testing.T) {
				inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
					src := newPush(from)
					n.start([]source.Source{src}, nil)
					web := func() *v1.Pod {
						p := pod(src.Name(), "web", "u", "trap '' TERM; sleep infinity")
						p.Spec.TerminationGracePeriodSeconds = new(int64(30))
						return p
					}
					set(t, src, web())
					time.Sleep(time.Minute)
					deleted, shorter := web(), web()
					deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(2))
					shorter.Spec.TerminationGracePeriodSeconds = new(int64(2))
					remove(t, src, deleted, shorter)
					time.Sleep(1900 * time.Millisecond)
					synctest.Wait()
					n.wantRunning(1, "u")
					time.Sleep(2500 * time.Millisecond)
					synctest.Wait()
					n.wantRunning(0, "u")
				})
			})
		}
	}
}

func update(t *testing.T, p *source.Push, pod *v1.Pod) {
	t.Helper()
	if err := p.Update(pod); err != nil {
		t.Fatal(err)
	}
}

// quick is a source that says two things at once.
type quick struct {
	first chan []*v1.Pod
	then  chan [2][]*v1.Pod
}

func (quick) Name() string { return runtime.ConfigSourceAPI }

func (q quick) Run(ctx context.Context, deliver func(source.Snapshot)) error {
	deliver(source.Snapshot{Pods: <-q.first})
	for _, pods := range <-q.then {
		deliver(source.Snapshot{Pods: pods})
	}
	<-ctx.Done()
	return nil
}

// The same holds for a source of the embedder that delivers both at once.
func TestW3_GraceOfADeletionFromAnySource(t *testing.T) {
	inBubble(t, critest.Config{}, func(t *testing.T, n *node) {
		src := quick{make(chan []*v1.Pod, 1), make(chan [2][]*v1.Pod, 1)}
		n.start([]source.Source{src}, nil)
		web := api(pod("", "web", "u", "trap '' TERM; sleep infinity"))
		web.Spec.TerminationGracePeriodSeconds = new(int64(30))
		src.first <- []*v1.Pod{web}
		time.Sleep(time.Minute)
		deleted := web.DeepCopy()
		deleted.DeletionTimestamp, deleted.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(2))
		src.then <- [2][]*v1.Pod{{deleted}, nil}
		time.Sleep(5 * time.Second)
		n.wantRunning(0, "u")
	})
}
