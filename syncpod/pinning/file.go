package pinning

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/cpu"
	"github.com/podsync/podsync/syncpod/numamemory"
)

const (
	// version is the version of the file's format.
	version = 1
	// maxFile is the largest file that is read or written, in bytes.
	maxFile = 4 << 20
)

// A state is the allocations of all pods. It is a value, and the content of the file.
type state struct {
	Version int              `json:"version"`
	CPUs    cpu.State        `json:"cpus"`
	Memory  numamemory.State `json:"memory"`
}

// has reports whether a pod has CPUs or memory. What it has is written as a whole.
func (s state) has(pod types.UID) bool {
	return len(s.CPUs.Pods[pod]) > 0 || len(s.Memory.Pods[pod]) > 0
}

// A file is the path of the file with the state.
type file string

// read returns the zero state if there is no file. A damaged file is an error, because running containers may have any of the CPUs.
func (f file) read() (s state, err error) {
	root, err := os.OpenRoot(filepath.Dir(string(f)))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	defer root.Close()
	text, err := hostfs.Read(root, filepath.Base(string(f)), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Version != version {
		err = fmt.Errorf("the file has version %d, and this agent reads %d", s.Version, version)
	}
	return s, err
}

// write returns when the state has reached the disk: CPUs that are forgotten would be given to two pods.
func (f file) write(s state) error {
	s.Version = version
	text, err := json.Marshal(s)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("it would have %d bytes, and %d is the most", len(text), maxFile)
	}
	dir := filepath.Dir(string(f))
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = hostfs.Replace(string(f), text, true)
	}
	if err == nil {
		err = hostfs.SyncDir(dir)
	}
	return err
}
