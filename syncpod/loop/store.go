package loop

import (
	"context"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/statusjson"
	"github.com/podsync/podsync/runtime"
)

// A StatusStore persists the statuses of pods across restarts of the agent, so that a finished pod
// is not run again, even without an API server. Its methods may be called concurrently for
// different pods.
//
// It holds the reported statuses, and the runtime's: a restarted agent inspects only what has changed since, by ID,
// because runtimes do not reuse IDs. The other state of the work on a pod is in the records below the Root. A [FileStore]
// is one.
type StatusStore interface {
	// SetStoredStatus stores the status of a pod, in the place of an earlier one. A store that leaves Runtime out makes
	// the next agent inspect the pod.
	SetStoredStatus(ctx context.Context, s StoredStatus) error
	// Load returns all stored statuses, sorted by UID. Unreadable ones are left out, and the error
	// describes them; the result is valid nevertheless. If the error is [ErrStatusesLost], they
	// are lost for good; after any other error a Loop retries for a minute before it does anything
	// else.
	Load(ctx context.Context) ([]StoredStatus, error)
	// Delete deletes the status of a pod. It succeeds if there is none.
	Delete(ctx context.Context, uid types.UID) error
}

// ErrStatusesLost is the error of a [StatusStore] for statuses that are lost for good.
var ErrStatusesLost = errors.New("statuses of pods are lost")

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

// readAlone reads a status without the runtime's: the latter can be inspected again, the former
// cannot.
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

func (noStore) Load(context.Context) ([]StoredStatus, error)        { return nil, nil }
func (noStore) SetStoredStatus(context.Context, StoredStatus) error { return nil }
func (noStore) Delete(context.Context, types.UID) error             { return nil }
