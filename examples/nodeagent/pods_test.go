package main

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func isWaiting(reason string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}
}

func hasEnded(code, signal int32, reason string) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, Signal: signal, Reason: reason, FinishedAt: metav1.NewTime(noon)}}
}

func isRunning() v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{}}
}

func container(name string, state v1.ContainerState) v1.ContainerStatus {
	up := state.Running != nil
	return v1.ContainerStatus{Name: name, State: state, Ready: up, Started: &up}
}

func restarted(s v1.ContainerStatus, count int32, ago time.Duration) v1.ContainerStatus {
	s.RestartCount = count
	s.LastTerminationState = hasEnded(1, 0, "Error")
	s.LastTerminationState.Terminated.FinishedAt = metav1.NewTime(noon.Add(-ago))
	return s
}

// aPod returns a pod with the containers app and log. With statuses of init containers, it also has the init containers
// migrate and warm-up, with the sidecar proxy between them.
func aPod(phase v1.PodPhase, init []v1.ContainerStatus, containers ...v1.ContainerStatus) *v1.Pod {
	always := v1.ContainerRestartPolicyAlways
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Status:     v1.PodStatus{Phase: phase, InitContainerStatuses: init, ContainerStatuses: containers},
	}
	pod.Spec.Containers = []v1.Container{{Name: "app"}, {Name: "log"}}
	if init != nil {
		pod.Spec.InitContainers = []v1.Container{{Name: "migrate"}, {Name: "proxy", RestartPolicy: &always}, {Name: "warm-up"}}
	}
	return pod
}
