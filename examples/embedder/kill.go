package embedder

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/lifecycle"
)

// KillContainer stops one container in a pod: its preStop handler runs, and the rest of the pod keeps running.
func KillContainer(ctx context.Context, client lifecycle.Runtime, pod *v1.Pod, observed *runtime.PodStatus, name string) error {
	stopper, err := lifecycle.New(lifecycle.Config{Runtime: client})
	if err != nil {
		return err
	}
	return stopper.KillContainer(ctx, lifecycle.Container{Pod: pod, Status: observed.Latest(name), IPs: observed.IPs()})
}

// KillPod stops a pod within its grace period.
func KillPod(ctx context.Context, client lifecycle.Runtime, pod *v1.Pod, observed *runtime.PodStatus) error {
	stopper, err := lifecycle.New(lifecycle.Config{Runtime: client})
	if err != nil {
		return err
	}
	return stopper.KillPod(ctx, lifecycle.Pod{Spec: pod, Status: observed})
}
