package timeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	nodeagent "github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/timeline"
)

// What happened to a pod whose container has crashed. The configuration would go to
// loop.New, and the Timeline to server.Config.
func Example() {
	history := timeline.New(timeline.Config{NodeName: "edge-7"})
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
	answer := httptest.NewRecorder()
	history.ServeHTTP(answer, httptest.NewRequest("GET", "/?pod=web&format=trace", nil))
	var trace struct {
		TraceEvents []struct {
			Name, Ph string
			Args     map[string]any
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &trace); err != nil {
		log.Fatal(err)
	}
	for _, e := range trace.TraceEvents {
		if e.Ph == "X" { // with a duration
			fmt.Printf("%s, reason: %v\n", e.Name, e.Args["reason"])
		}
	}
	// Output:
	// Ran, reason: exit code 3 (Error)
	// Running, reason: <nil>
	// CrashLoopBackOff, reason: <nil>
}
