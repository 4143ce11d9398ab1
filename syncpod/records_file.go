package syncpod

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/safepath"
)

// FileRecords are [Records] in a directory: a file <UID>.json for each pod, which
// is replaced as a whole.
type FileRecords struct {
	// Dir is the directory. It is made when the first record is saved.
	Dir string
}

const recordSuffix = ".json"

// LoadRecord reads a file.
func (f FileRecords) LoadRecord(_ context.Context, pod types.UID) (Record, error) {
	path, err := f.path(pod)
	if err != nil {
		return Record{}, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("record of a pod: %w", err)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("record of a pod: %s: %w", path, err)
	}
	return r, nil
}

// SaveRecord writes a file beside the old one and puts it in its place.
func (f FileRecords) SaveRecord(_ context.Context, pod types.UID, r Record) error {
	path, err := f.path(pod)
	if err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record of a pod: %w", err)
	}
	if err := os.MkdirAll(f.Dir, 0o750); err != nil {
		return fmt.Errorf("record of a pod: %w", err)
	}
	return replaceFile(path, text)
}

// DeleteRecord removes a file.
func (f FileRecords) DeleteRecord(_ context.Context, pod types.UID) error {
	path, err := f.path(pod)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of a pod: %w", err)
	}
	return nil
}

// ListRecords reads the directory.
func (f FileRecords) ListRecords(context.Context) ([]types.UID, error) {
	entries, err := os.ReadDir(f.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("records of pods: %w", err)
	}
	var all []types.UID
	for _, e := range entries {
		if uid, ok := strings.CutSuffix(e.Name(), recordSuffix); ok && !strings.HasPrefix(uid, ".") {
			all = append(all, types.UID(uid))
		}
	}
	slices.Sort(all) // as files, a-1.json came before a.json
	return all, nil
}

func (f FileRecords) path(pod types.UID) (string, error) {
	if f.Dir == "" {
		return "", errors.New("syncpod: FileRecords.Dir is missing")
	}
	if err := safepath.Element("metadata.uid", string(pod)); err != nil {
		return "", err
	}
	if strings.HasPrefix(string(pod), ".") {
		return "", fmt.Errorf("metadata.uid %q begins with a dot", pod)
	}
	return filepath.Join(f.Dir, string(pod)+recordSuffix), nil
}

// replaceFile puts text where path is, all of it or nothing.
func replaceFile(path string, text []byte) error {
	beside, err := os.CreateTemp(filepath.Dir(path), ".record-*")
	if err != nil {
		return fmt.Errorf("record of a pod: %w", err)
	}
	_, err = beside.Write(text)
	err = errors.Join(err, beside.Sync(), beside.Close())
	if err == nil {
		err = os.Rename(beside.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("record of a pod: %w", err), os.Remove(beside.Name()))
	}
	return nil
}
