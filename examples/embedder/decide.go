package embedder

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/reader"
)

// Decide returns what a pod needs next, from the answers of a CRI client of one's own. It changes nothing.
func Decide(ctx context.Context, client reader.Runtime, pod *v1.Pod) (actions.Plan, error) {
	r, err := reader.New(reader.Config{Runtime: client, RuntimeName: "containerd"})
	if err != nil {
		return actions.Plan{}, err
	}
	observed, err := r.PodStatus(ctx, pod.UID, nil)
	if err != nil {
		return actions.Plan{}, err
	}
	return actions.Compute(actions.Input{Pod: pod, Status: observed}), nil
}
