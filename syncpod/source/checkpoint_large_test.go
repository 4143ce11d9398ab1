package source

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A file that no agent has written is not read into memory.
func TestMemoryThatIsTooLarge(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory")
	must.Do(t, errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, maxMemory+1)))
	if text, err := readCheckpoint(path, maxMemory); err == nil || !strings.Contains(err.Error(), "more than 268435456") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	if _, err := readCheckpoint(filepath.Dir(path), maxMemory); err == nil {
		t.Error("a directory is read")
	}
}
