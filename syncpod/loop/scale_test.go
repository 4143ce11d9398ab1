package loop

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/source"
)

// loopOf is a Loop that has taken on so many pods of one source, and does not run.
func loopOf(t testing.TB, pods int) *Loop {
	t.Helper()
	workers, err := podworkers.New(podworkers.Config{Syncer: work{}, Observer: podworkers.NopObserver{}})
	if err != nil {
		t.Fatal(err)
	}
	f := &feed{Source: source.NewPush()}
	l := &Loop{
		workers: workers, states: &podStates{pods: map[types.UID]*podState{}}, workerPods: map[types.UID]*workerPod{}, feeds: []*feed{f},
		news: make(flag, 1), housekeeping: make(flag, 1),
	}
	l.config.Watch.Cache = &runtime.Cache{}
	all := make([]*v1.Pod, pods)
	for i := range all {
		all[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i), UID: types.UID(fmt.Sprintf("%05d", i))}}
	}
	l.deliver(f, source.Snapshot{Pods: all})
	for _, w := range l.desired().pods {
		l.add(w, false)
	}
	return l
}

func uidsOf(pods []*v1.Pod) (uids []types.UID) {
	for _, p := range pods {
		uids = append(uids, p.UID)
	}
	return uids
}

// What is told of the pods beside a new one is what a walk through all of them finds.
func TestAdmittedPods(t *testing.T) {
	l := loopOf(t, 5)
	want := []types.UID{"00000", "00001", "00002", "00003", "00004"}
	check := func(what string) {
		t.Helper()
		if got := uidsOf(l.admitted()); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("all")
	l.admitted()[0] = nil
	check("after a caller has changed its list")
	l.states.update("00001", func(s *podState) { s.phase = podworkers.Terminated })
	want = slices.Delete(want, 1, 2)
	check("after one has stopped")
	l.states.update("00003", func(s *podState) { s.status = &v1.PodStatus{Phase: v1.PodFailed} })
	want = slices.Delete(want, 2, 3)
	check("after one is over")
	l.add(desiredPod{podOf("00002+"), "api"}, false)
	want = slices.Insert(want, 2, types.UID("00002+"))
	check("after an addition")
	l.states.delete("00003")
	want = slices.Insert(want, 3, types.UID("00003"))
	check("after one begins anew")
	l.stopUndesired(desiredPods{pods: []desiredPod{{pod: podOf("00002")}}})
	for _, p := range l.admitted() {
		if p != l.workerPods[p.UID].pod {
			t.Errorf("pod %s is told of as it was before", p.UID)
		}
	}
}

// To ask whether a pod that is gone may come back costs the same however many there are:
// it is asked of each one that has left something.
func TestToAskOfOnePodIsNotToWalkThroughAll(t *testing.T) {
	l := loopOf(t, 1000)
	if l.isCertain("other") != true || l.unwanted("00007") {
		t.Error("what is not wanted is said to be, or the other way round")
	}
	if allocations := testing.AllocsPerRun(10, func() { l.isCertain("other") }); allocations > 0 {
		t.Errorf("%v allocations, want none", allocations)
	}
	l.feeds = append(l.feeds, &feed{Source: source.NewPush()})
	if l.isCertain("other") {
		t.Error("it is certain before all sources have spoken")
	}
}

// What is told of the others to an Admission, for each of many pods that come at once.
func BenchmarkAdmitted(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			l := loopOf(b, pods)
			for b.Loop() {
				l.admitted()
			}
		})
	}
}
