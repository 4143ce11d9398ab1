package loop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// A StatusStore remembers the statuses of pods across restarts of the agent, so
// that a pod that has finished is not run again though no API server remembers it.
// Its methods may be called concurrently for different pods.
//
// It holds what was reported of a pod. What the work on a pod has to remember
// besides is in syncpod.Records.
type StatusStore interface {
	// StatusSink's SetPodStatus remembers the status of a pod.
	syncpod.StatusSink
	// Load returns all that is remembered, sorted by UID. What cannot be read is
	// left out, and the error says what was wrong with it: what is returned is good
	// even so. If the error is syncpod.ErrRecordLost, what was left out is lost for good;
	// after any other one a Loop asks again, for a minute, before it does anything else.
	Load(ctx context.Context) ([]StoredStatus, error)
	// Delete forgets a pod. It is no error if there is nothing to forget.
	Delete(ctx context.Context, uid types.UID) error
}

// A StoredStatus is what a StatusStore remembers of a pod. It can be written as
// JSON.
type StoredStatus struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Status is the one last reported.
	Status v1.PodStatus `json:"status"`
}

// noStore stands for a missing [StatusStore].
type noStore struct{}

func (noStore) Load(context.Context) ([]StoredStatus, error)              { return nil, nil }
func (noStore) SetPodStatus(context.Context, *v1.Pod, v1.PodStatus) error { return nil }
func (noStore) Delete(context.Context, types.UID) error                   { return nil }
