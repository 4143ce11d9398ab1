package loop

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/source"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// reconcilerOf is the reconciler of a Loop that has taken on so many pods of one source, and does
// not run.
func reconcilerOf(t testing.TB, pods int) *reconciler {
	t.Helper()
	l := &Loop{config: Config{Finished: func(types.UID) {}}}
	workers, err := podworkers.New(podworkers.Config{Syncer: work{}, Tracker: work{loop: l}})
	if err != nil {
		t.Fatal(err)
	}
	table := &podTable{
		workers: workers, states: &podStates{pods: map[types.UID]*podState{}}, cache: &runtime.Cache{}, pods: map[types.UID]*workerPod{},
		reconcile: make(flag, 1), housekeeping: make(flag, 1),
	}
	f := &feed{Source: source.NewPush()}
	r := &reconciler{table: table, sources: &feeds{delivered: table.sourceDelivered, all: []*feed{f}}}
	l.table, l.states, l.sources = table, table.states, r.sources
	all := make([]*v1.Pod, pods)
	for i := range all {
		all[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprintf("%05d", i))}}
	}
	r.sources.deliver(f, source.Snapshot{Pods: all})
	for _, w := range r.sources.desired().pods {
		r.add(t.Context(), w, false)
	}
	return r
}

func uidsOf(pods []*v1.Pod) (uids []types.UID) {
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return uids
}

// The active pods that an Admission gets are those that a search through all pods finds.
func TestAdmittedPods(t *testing.T) {
	r := reconcilerOf(t, 5)
	want := []types.UID{"00000", "00001", "00002", "00003", "00004"}
	check := func(what string) {
		t.Helper()
		if got := uidsOf(r.table.admitted()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("all")
	r.table.admitted()[0] = nil
	check("after a caller has changed its list")
	r.table.workers.SyncKnownPods(slices.Concat(want[:1], want[2:])) // without work, it has stopped
	want = slices.Delete(want, 1, 2)
	check("after one has stopped")
	r.table.states.update("00003", func(s *podState) { s.status = &v1.PodStatus{Phase: v1.PodFailed} })
	want = slices.Delete(want, 2, 3)
	check("after one is over")
	r.add(t.Context(), desiredPod{&v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "00002+"}}, "api"}, false)
	want = slices.Insert(want, 2, types.UID("00002+"))
	check("after an addition")
	r.table.states.delete("00003")
	want = slices.Insert(want, 3, types.UID("00003"))
	check("after one begins anew")
	r.stopUndesired(desiredPods{pods: []desiredPod{{pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "00002"}}}}})
	for _, p := range r.table.admitted() {
		if p != r.table.pods[p.UID].pod {
			t.Errorf("admitted returns the old version of pod %s", p.UID)
		}
	}
}

// The cost of the question whether a removed pod may return does not depend on the number of pods, because
// the question is asked for each removed pod with objects left.
func TestCostOfOneQuestionDoesNotGrowWithThePods(t *testing.T) {
	r := reconcilerOf(t, 1000)
	states := host{&Loop{workers: r.table.workers, sources: r.sources}}
	if states.isCertain("other") != true || r.sources.unwanted("00007") {
		t.Error("an undesired pod counts as desired, or a desired one does not")
	}
	if allocations := testing.AllocsPerRun(10, func() { states.isCertain("other") }); allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
	r.sources.all = append(r.sources.all, &feed{Source: source.NewPush()})
	if states.isCertain("other") {
		t.Error("it is certain before all sources have spoken")
	}
}

// The cost of the active pods for an Admission, when many pods are added at once.
func BenchmarkAdmitted(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			r := reconcilerOf(b, pods)
			for b.Loop() {
				r.table.admitted()
			}
		})
	}
}

// A source may give a pod as many conditions as fit in an object, again and again.
func TestManyConditionsOfASource(t *testing.T) {
	const name = "gates.example.com/a-name-of-some-length-with-which-all-of-them-begin-%07d"
	pod := &v1.Pod{}
	for i := range 250_000 {
		pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{Type: v1.PodConditionType(fmt.Sprintf(name, i)), Status: v1.ConditionTrue})
	}
	reported := &v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: pod.Status.Conditions[0].Type}}}
	done := make(chan *v1.Pod, 1)
	go func() { done <- apistatus.WithReported(pod, reported) }()
	select {
	case merged := <-done:
		if c := merged.Status.Conditions; len(c) != 1+len(pod.Status.Conditions) || c[1].Status != v1.ConditionTrue || reported.Conditions[1].Status != "" {
			t.Errorf("%d conditions, %+v", len(c), c[:2])
		}
	case <-time.After(time.Minute):
		t.Error("a pod takes more than a minute")
	}
}
