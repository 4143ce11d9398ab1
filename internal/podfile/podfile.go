// Package podfile stores one small file for each pod, <UID>.json, in a directory. Files are
// replaced atomically: if the agent is killed, either the old or the new contents exist.
package podfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	suffix  = ".json"
	damaged = ".damaged"
	// maxSize is the maximum size of a file that is read or written, in bytes.
	maxSize = 4 << 20
)

// ErrDamaged means that a file will never be readable: it is too large, is no regular file, or has other contents than expected.
var ErrDamaged = errors.New("the file is damaged")

// Dir is a directory's path. It is created with the first file. Its methods may be called
// concurrently for different pods. Errors name the pod.
type Dir string

// Read returns a pod's file contents. The error is fs.ErrNotExist if there is no file.
func (d Dir) Read(pod types.UID) ([]byte, error) {
	path, err := d.path(pod)
	if err != nil {
		return nil, err
	}
	text, err := read(string(d), filepath.Base(path))
	if errors.Is(err, hostfs.ErrTooLarge) || errors.Is(err, hostfs.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return text, wrap(pod, err)
}

// ReadJSON decodes a pod's file into a value. After an error the value may be partly set.
func (d Dir) ReadJSON(pod types.UID, into any) error {
	text, err := d.Read(pod)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return wrap(pod, fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	return nil
}

func read(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return hostfs.Read(root, name, maxSize)
}

// ReplaceJSON writes a value as Replace does.
func (d Dir) ReplaceJSON(pod types.UID, value any, lasting bool) error {
	text, err := json.Marshal(value)
	if err != nil {
		return wrap(pod, err)
	}
	return d.Replace(pod, text, lasting)
}

// Replace writes a pod's file. A lasting file is on the disk when Replace returns. Replace rejects a text of more than 4 MiB,
// because Read would reject it. Calls for one pod must not overlap.
func (d Dir) Replace(pod types.UID, text []byte, lasting bool) error {
	path, err := d.path(pod)
	if err != nil {
		return err
	}
	if len(text) > maxSize {
		return wrap(pod, fmt.Errorf("it would have %d bytes, and %d is the most", len(text), maxSize))
	}
	err = d.replace(path, text, lasting)
	if err == nil && lasting {
		err = hostfs.SyncDir(string(d))
	}
	return wrap(pod, err)
}

func (d Dir) replace(path string, text []byte, sync bool) error {
	err := hostfs.Replace(path, text, sync)
	if errors.Is(err, fs.ErrNotExist) { // the directory is missing; it nearly always exists
		if err = os.MkdirAll(string(d), 0o700); err == nil {
			err = hostfs.Replace(path, text, sync)
		}
	}
	if err == nil {
		return nil
	}
	if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() { // no rename replaces it
		if moveErr := os.Rename(path, path+damaged); moveErr == nil {
			return hostfs.Replace(path, text, sync)
		}
	}
	return err
}

// SetAside renames a pod's file to <UID>.json.damaged, for an administrator to examine. Afterwards the pod has no file.
func (d Dir) SetAside(pod types.UID) error {
	path, err := d.path(pod)
	if err != nil {
		return err
	}
	return wrap(pod, os.Rename(path, path+damaged))
}

// RemoveAside removes a file that was set aside, if there is one.
func (d Dir) RemoveAside(pod types.UID) error {
	path, err := d.path(pod)
	if err != nil {
		return err
	}
	return wrap(pod, remove(path+damaged))
}

// Remove removes a pod's file, if there is one.
func (d Dir) Remove(pod types.UID) error {
	path, err := d.path(pod)
	if err != nil {
		return err
	}
	return wrap(pod, remove(path))
}

func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List returns the pods that have a file, sorted. It returns none if the directory does not exist.
func (d Dir) List() ([]types.UID, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var pods []types.UID
	for _, e := range entries {
		uid, ok := strings.CutSuffix(e.Name(), suffix)
		if ok && e.Type().IsRegular() && check(types.UID(uid)) == nil {
			pods = append(pods, types.UID(uid))
		}
	}
	slices.Sort(pods) // in the file order, a-1.json is before a.json
	return pods, nil
}

func (d Dir) path(pod types.UID) (string, error) {
	if d == "" {
		return "", errors.New("the directory is empty: it must be the path of one")
	}
	if err := check(pod); err != nil {
		return "", err
	}
	return filepath.Join(string(d), string(pod)+suffix), nil
}

// check returns an error if a UID cannot be a file's name. Names that begin with a dot are
// temporary files.
func check(pod types.UID) error {
	if err := hostfs.Element("metadata.uid", string(pod)); err != nil {
		return err
	}
	if strings.HasPrefix(string(pod), ".") {
		return fmt.Errorf("metadata.uid %s begins with a dot", hostfs.Quote(string(pod)))
	}
	return nil
}

func wrap(pod types.UID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("file of pod %s: %w", pod, err)
}
