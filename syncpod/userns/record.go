package userns

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// fileName is the kubelet's name of the file.
	fileName = "userns"
	// maxFile is the largest file that is read, in bytes.
	maxFile = 4096
)

// A record is the file's content.
type record struct {
	UIDMappings []mapping `json:"uidMappings"`
	GIDMappings []mapping `json:"gidMappings"`
}

type mapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

func (s span) record() record {
	all := []mapping{{HostID: s.first, Length: s.length}}
	return record{UIDMappings: all, GIDMappings: all}
}

// span returns a record's range. A range with IDs of the node's own users is an error.
func (r record) span() (span, error) {
	if len(r.UIDMappings) != 1 || len(r.GIDMappings) != 1 || r.UIDMappings[0] != r.GIDMappings[0] || r.UIDMappings[0].ContainerID != 0 {
		return span{}, errors.New("it does not have one mapping of user IDs from 0 on, and the same of group IDs")
	}
	s := span{r.UIDMappings[0].HostID, r.UIDMappings[0].Length}
	if s.first < Unit || s.length == 0 || s.end() > allIDs {
		return span{}, fmt.Errorf("its %d IDs from %d on are not between %d and %d", s.length, s.first, Unit, uint64(allIDs))
	}
	return s, nil
}

// directory is the directory of the pods' directories.
type directory string

func (d directory) path(uid types.UID) (string, error) {
	if err := hostfs.Element("metadata.uid", string(uid)); err != nil {
		return "", fmt.Errorf("userns: %w", err)
	}
	return filepath.Join(string(d), string(uid), fileName), nil
}

// read returns the range of a pod, and false if it has none.
func (d directory) read(uid types.UID) (s span, found bool, err error) {
	path, err := d.path(uid)
	if err != nil {
		return span{}, false, err
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return span{}, false, nil
	}
	if err != nil {
		return span{}, false, fmt.Errorf("userns: %w", err)
	}
	defer root.Close()
	text, err := hostfs.Read(root, fileName, maxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(bytes.TrimSpace(text)) == 0: // a kubelet treats an empty file as missing
		return span{}, false, nil
	case err != nil:
		return span{}, false, fmt.Errorf("userns: %s: %w", path, err)
	}
	var r record
	if err = json.Unmarshal(text, &r); err == nil {
		s, err = r.span()
	}
	if err != nil {
		return span{}, false, fmt.Errorf("userns: %s: %w", path, err)
	}
	return s, true, nil
}

// write records the range of a pod, and returns when it has reached the disk: a range that is forgotten would be given to two pods.
func (d directory) write(uid types.UID, s span) error {
	path, err := d.path(uid)
	if err != nil {
		return err
	}
	text, err := json.Marshal(s.record())
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o750)
	}
	if err == nil {
		err = hostfs.Replace(path, text, true)
	}
	if err == nil {
		err = hostfs.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("userns: %w", err)
	}
	return nil
}

// remove deletes a pod's record. It succeeds if there is none.
func (d directory) remove(uid types.UID) error {
	path, err := d.path(uid)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("userns: %w", err)
	}
	return nil
}

// list returns the ranges of all pods. No two of them overlap.
func (d directory) list() (map[types.UID]span, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("userns: %w", err)
	}
	all := map[types.UID]span{}
	for _, e := range entries {
		uid := types.UID(e.Name())
		if !e.IsDir() {
			continue
		}
		s, found, err := d.read(uid)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		for other, taken := range all {
			if s.overlaps(taken) {
				return nil, fmt.Errorf("userns: the pods %s and %s in %s have IDs in common", min(uid, other), max(uid, other), d)
			}
		}
		all[uid] = s
	}
	return all, nil
}
