package embedder

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod/container/start"
)

// Start starts containers in a sandbox: their images, environments and configurations, creation, start and postStart.
func Start(ctx context.Context, starter *start.Starter, pod *v1.Pod, box start.Sandbox, steps []actions.StartStep) error {
	for started := range starter.StartAll(ctx, start.Pod{Spec: pod, Sandbox: box}, steps) {
		if started.Err != nil {
			return started.Err // its Reason is a kubelet's, such as CreateContainerError
		}
	}
	return ctx.Err()
}
