package embedder

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod/status"
)

// Report writes a pod's status into a database of one's own.
func Report(ctx context.Context, r *reader.Reader, pod *v1.Pod, database map[types.UID]*v1.PodStatus) error {
	observed, err := r.PodStatus(ctx, pod.UID, nil)
	if err != nil {
		return err
	}
	last := database[pod.UID]
	next := status.Merge(last, status.GeneratePodStatus(status.Input{Pod: pod, Previous: last, Status: observed, Now: time.Now()}))
	database[pod.UID] = &next
	return nil
}
