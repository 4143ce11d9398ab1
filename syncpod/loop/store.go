package loop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A StatusStore remembers across restarts of the agent what became of pods that
// no API server remembers. Its methods may be called concurrently, for one pod one
// at a time.
type StatusStore interface {
	// Load returns all that is remembered, sorted by UID. What cannot be read is
	// left out, and the error joins what was wrong with it: the records are good
	// even so.
	Load(ctx context.Context) ([]Record, error)
	// SetPodStatus remembers the status of a pod. It has the signature of a sink
	// of package syncpod.
	SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error
	// Delete forgets a pod. It is no error if there is nothing to forget.
	Delete(ctx context.Context, uid types.UID) error
}

// A Record is what a StatusStore remembers of a pod.
type Record struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Status is that last reported. Its phase is empty if none was.
	Status v1.PodStatus `json:"status"`
}
