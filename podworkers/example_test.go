package podworkers_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/podworkers"
)

// A pod is created, and deleted before it runs. The owner of the Set does the work that Next returns, and reports the result
// with Done.
func ExampleSet() {
	var set podworkers.Set
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-0", Namespace: "default", UID: "4f1c"}}

	update := func(u podworkers.Update) podworkers.Effects {
		effects, err := set.Update(now, u)
		if err != nil {
			panic(err)
		}
		return effects
	}
	update(podworkers.Update{Type: podworkers.Create, Pod: pod})
	sync, _, _ := set.Next(now, pod.UID)
	fmt.Println("begin", sync.Type)

	grace := int64(20)
	effects := update(podworkers.Update{Type: podworkers.Kill, Pod: pod, Stop: &podworkers.StopRequest{ID: 1, GracePeriodSeconds: &grace}})
	fmt.Println("cancel it:", effects.Interrupt)

	effects = set.Done(sync, podworkers.Failed)
	for effects.Work {
		work, _, _ := set.Next(now, pod.UID)
		fmt.Print("begin ", work.Type)
		if !work.Deadline.IsZero() {
			fmt.Print(", over by ", work.Deadline.Format(time.TimeOnly))
		}
		effects = set.Done(work, podworkers.Succeeded)
		fmt.Println("; answered:", effects.Stopped)
	}
	fmt.Println("finished:", set.State(pod.UID).ShouldBeFinished)
	// Output:
	// begin SyncPod
	// cancel it: true
	// begin SyncTerminatingPod, over by 12:00:20; answered: [1]
	// begin SyncTerminatedPod; answered: []
	// finished: true
}
