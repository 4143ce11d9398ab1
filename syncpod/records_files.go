package syncpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
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

	turns podfile.Turns
}

// NewFileRecords returns FileRecords that limit the number of concurrent operations, so that a slow disk does not hold a
// thread of the operating system for each pod.
func NewFileRecords(dir string) FileRecords {
	return FileRecords{Dir: dir, turns: podfile.NewTurns()}
}

// LoadRecord reads a file.
func (f FileRecords) LoadRecord(_ context.Context, pod types.UID) ([]byte, error) {
	defer f.turns.Take()()
	text, err := podfile.Dir(f.Dir).Read(pod)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, f.wrap(err)
}

// SaveRecord replaces a file.
func (f FileRecords) SaveRecord(_ context.Context, pod types.UID, text []byte) error {
	defer f.turns.Take()()
	return f.wrap(podfile.Dir(f.Dir).Replace(pod, text, false))
}

// DeleteRecord removes a file.
func (f FileRecords) DeleteRecord(_ context.Context, pod types.UID) error {
	defer f.turns.Take()()
	return f.wrap(podfile.Dir(f.Dir).Remove(pod))
}

// ListRecords reads the directory.
func (f FileRecords) ListRecords(context.Context) ([]types.UID, error) {
	pods, err := podfile.Dir(f.Dir).List()
	return pods, f.wrap(err)
}

func (f FileRecords) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("records in %q: %w", f.Dir, err)
	}
	return nil
}
