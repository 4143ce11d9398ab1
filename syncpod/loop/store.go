package loop

import (
	"context"
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/statusjson"
	"github.com/podsync/podsync/runtime"
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

// A RuntimeStatusStore is a StatusStore that remembers also what the runtime had reported of a
// pod. An agent that begins with that asks the runtime only for what has changed since, by its IDs,
// of which a runtime uses none twice. A [FileStore] is one.
type RuntimeStatusStore interface {
	StatusStore
	// SetStoredStatus remembers all of it. A Loop calls it in place of SetPodStatus.
	SetStoredStatus(ctx context.Context, s StoredStatus) error
}

// A StoredStatus is what a StatusStore remembers of a pod. It can be written as
// JSON.
type StoredStatus struct {
	Namespace string
	Name      string
	UID       types.UID
	// Status is the one last reported.
	Status v1.PodStatus
	// Runtime is what the runtime had reported of the pod by then, nil if that is not known. It
	// is not written to. Its ObservedAt is not remembered.
	Runtime *runtime.PodStatus
}

// storedStatus is a StoredStatus as JSON.
type storedStatus struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       types.UID       `json:"uid"`
	Status    v1.PodStatus    `json:"status"`
	Runtime   *statusjson.Pod `json:"runtime,omitempty"`
}

// MarshalJSON writes it as the files of a FileStore have it.
func (s StoredStatus) MarshalJSON() ([]byte, error) {
	written := storedStatus{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Status: s.Status}
	if s.Runtime != nil {
		written.Runtime = statusjson.OfPod(s.Runtime)
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads it, also as written without what the runtime had reported.
func (s *StoredStatus) UnmarshalJSON(text []byte) error {
	var read storedStatus
	if err := json.Unmarshal(text, &read); err != nil {
		if read, err = readAlone(text); err != nil {
			return err
		}
	}
	*s = StoredStatus{Namespace: read.Namespace, Name: read.Name, UID: read.UID, Status: read.Status}
	if read.Runtime != nil {
		s.Runtime = read.Runtime.Status(read.UID, read.Namespace, read.Name)
	}
	return nil
}

// readAlone reads a status without what the runtime had reported: that can be asked for again, and
// the status cannot.
func readAlone(text []byte) (read storedStatus, err error) {
	var alone struct {
		storedStatus
		Runtime json.RawMessage `json:"runtime"`
	}
	err = json.Unmarshal(text, &alone)
	return alone.storedStatus, err
}

// noStore stands for a missing [StatusStore].
type noStore struct{}

func (noStore) Load(context.Context) ([]StoredStatus, error)              { return nil, nil }
func (noStore) SetPodStatus(context.Context, *v1.Pod, v1.PodStatus) error { return nil }
func (noStore) Delete(context.Context, types.UID) error                   { return nil }
