package probe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	podprobe "github.com/podsync/podsync/syncpod/probe"
)

// never is a runtime in which every command fails. In an agent it is a connection:
// runtimeapi.NewRuntimeServiceClient(conn).
type never struct{}

func (never) ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error) {
	return &runtimeapi.ExecSyncResponse{ExitCode: 1}, nil
}

// A running container is probed as soon as Observe has reported it to the prober.
func ExampleManager() {
	prober, err := podprobe.New(podprobe.Config{
		Exec: never{},
		Unhealthy: func(pod *v1.Pod, container string, _ podprobe.Kind, message string) {
			fmt.Printf("%s of %s: %s\n", container, pod.Name, message)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "app", LivenessProbe: &v1.Probe{
		ProbeHandler:  v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-e", "/alive"}}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
	}}}}}
	pod.Name, pod.UID = "web", "8c1f"
	app := runtime.ContainerID{Type: "containerd", ID: "4be1"}
	prober.Observe(pod, &runtime.PodStatus{UID: pod.UID, Containers: []runtime.ContainerStatus{
		{ID: app, Name: "app", State: runtime.ContainerRunning, StartedAt: time.Now()},
	}}, false)

	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err = prober.Run(ctx, func(uid types.UID) { // the pod must be synced: package actions uses the results
		fmt.Println("failed:", prober.ProbeResults(uid)[app].Liveness == actions.ProbeFailure)
		stop()
	})
	fmt.Println(err)
	// Unordered output:
	// failed: true
	// app of web: Liveness probe failed: the command ended with exit code 1
	// <nil>
}
