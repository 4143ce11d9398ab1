package syncpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/podfile"
)

// FileRecords are [Records] in a directory: a file <UID>.json for each pod, which is replaced
// atomically.
//
// If the agent is killed, the last record or the one before exists. Writes are not synced to disk,
// because each start of a container would have to wait: after a power failure a record may be old
// or lost. Nothing runs any more then, and the runtime reports what has run.
type FileRecords struct {
	// Dir is the directory. It is created when the first record is saved.
	Dir string
	// turns are those of a Syncer that has made its FileRecords itself.
	turns podfile.Turns
}

// LoadRecord reads a file.
func (f FileRecords) LoadRecord(_ context.Context, pod types.UID) (Record, error) {
	defer f.turns.Take()()
	text, err := podfile.Dir(f.Dir).Read(pod)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("record of a pod in %s: %w", f.Dir, err)
	}
	var r Record
	if err := r.UnmarshalJSON(text); err != nil { // at once, and not after a pass to find its end
		return Record{}, fmt.Errorf("record of pod %s in %s: %w: %w", pod, f.Dir, ErrRecordLost, err)
	}
	return r, nil
}

// SaveRecord replaces a file.
func (f FileRecords) SaveRecord(_ context.Context, pod types.UID, r Record) error {
	text, err := json.Marshal(r)
	defer f.turns.Take()()
	if err == nil {
		err = podfile.Dir(f.Dir).Replace(pod, text, false)
	}
	if err != nil {
		return fmt.Errorf("record of a pod: %w", err)
	}
	return nil
}

// DeleteRecord removes a file.
func (f FileRecords) DeleteRecord(_ context.Context, pod types.UID) error {
	defer f.turns.Take()()
	if err := podfile.Dir(f.Dir).Remove(pod); err != nil {
		return fmt.Errorf("record of a pod: %w", err)
	}
	return nil
}

// ListRecords reads the directory.
func (f FileRecords) ListRecords(context.Context) ([]types.UID, error) {
	pods, err := podfile.Dir(f.Dir).List()
	if err != nil {
		return nil, fmt.Errorf("records of pods: %w", err)
	}
	return pods, nil
}
