// Package store persists pod statuses, so that the next agent knows which pods have finished.
package store

import (
	"context"
	"encoding/json"
	"errors"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/statusjson"
	"github.com/podsync/podsync/runtime"
)

// A Store persists the statuses of pods across agent restarts, so that a finished pod
// is not run again, even without an API server. Its methods may be called concurrently for
// different pods.
//
// It holds the reported statuses, and the runtime's: a restarted agent inspects only what has changed since, by ID,
// because runtimes do not reuse IDs. The other state of the work on a pod is in the records below the Root.
type Store interface {
	// SetStatus stores a pod's status. It replaces an earlier one. If the store omits Runtime, the next agent
	// inspects the pod.
	SetStatus(ctx context.Context, s Status) error
	// Load returns all stored statuses, sorted by UID. Unreadable ones are left out, and the error
	// describes them; the result is valid nevertheless. If the error is [ErrLost], they
	// are lost for good; after any other error the caller retries for a minute before it does anything
	// else.
	Load(ctx context.Context) ([]Status, error)
	// Delete deletes a pod's status. It succeeds if there is none.
	Delete(ctx context.Context, uid types.UID) error
}

// ErrLost is the error of a [Store] for statuses that are lost for good.
var ErrLost = errors.New("statuses of pods are lost")

// A Status is a pod's status in a [Store]. It can be written as JSON.
type Status struct {
	Namespace string
	Name      string
	UID       types.UID
	// Status is the last reported status.
	Status v1.PodStatus
	// Runtime is the pod's last status in the runtime, nil if it is unknown. It is read-only. Its
	// ObservedAt is not stored.
	Runtime *runtime.PodStatus
}

// statusJSON is a Status as JSON.
type statusJSON struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       types.UID       `json:"uid"`
	Status    v1.PodStatus    `json:"status"`
	Runtime   *statusjson.Pod `json:"runtime,omitempty"`
}

// MarshalJSON writes the status in the format of [Files].
func (s Status) MarshalJSON() ([]byte, error) {
	written := statusJSON{Namespace: s.Namespace, Name: s.Name, UID: s.UID, Status: s.Status}
	if s.Runtime != nil {
		written.Runtime = statusjson.OfPod(s.Runtime)
	}
	return json.Marshal(written)
}

// UnmarshalJSON parses a status, with or without the runtime's part.
func (s *Status) UnmarshalJSON(text []byte) error {
	var read statusJSON
	if err := json.Unmarshal(text, &read); err != nil {
		if read, err = readAlone(text); err != nil {
			return err
		}
	}
	*s = Status{Namespace: read.Namespace, Name: read.Name, UID: read.UID, Status: read.Status}
	if read.Runtime != nil {
		s.Runtime = read.Runtime.Status(read.UID, read.Namespace, read.Name)
	}
	return nil
}

// readAlone reads a status without the runtime's: the latter can be inspected again, the former
// cannot.
func readAlone(text []byte) (read statusJSON, err error) {
	var alone struct {
		statusJSON
		Runtime json.RawMessage `json:"runtime"`
	}
	err = json.Unmarshal(text, &alone)
	return alone.statusJSON, err
}

// None is a [Store] that stores nothing.
type None struct{}

// Load returns nothing.
func (None) Load(context.Context) ([]Status, error) { return nil, nil }

// SetStatus does nothing.
func (None) SetStatus(context.Context, Status) error { return nil }

// Delete does nothing.
func (None) Delete(context.Context, types.UID) error { return nil }
