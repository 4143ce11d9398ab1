package timeline_test

import (
	"context"
	"fmt"
	"log"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/timeline"
)

// What happened to a pod whose container has crashed. The configuration would go to
// loop.New, and the Timeline to server.Config.
func Example() {
	history, err := timeline.New(timeline.Config{NodeName: "edge-7"})
	if err != nil {
		log.Fatal(err)
	}
	var config nodeagent.Config
	history.Observe(&config)

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"}}
	began := metav1.NewTime(time.Now().Add(-3 * time.Second))
	status := v1.PodStatus{Phase: v1.PodRunning, ContainerStatuses: []v1.ContainerStatus{{
		Name: "app", RestartCount: 1,
		State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{
			ExitCode: 3, Reason: "Error", StartedAt: began, FinishedAt: metav1.NewTime(began.Add(2 * time.Second)), ContainerID: "containerd://1",
		}},
	}}}
	if err := config.Sync.Sink.SetPodStatus(context.Background(), pod, status); err != nil {
		log.Fatal(err)
	}
	for _, pod := range history.Pods() {
		for _, e := range pod.Entries {
			fmt.Printf("%s %s %q %q\n", pod.Name, e.Kind, e.Name, e.Reason)
		}
	}
	// Output:
	// web run "Ran" "exit code 3 (Error)"
	// web phase "Running" ""
	// web wait "CrashLoopBackOff" ""
}
