package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/mounts"
	"github.com/podsync/podsync/internal/base/safepath"
)

const (
	dirMode = 0o750
	// recordsDir is below Config.Root, and registryDir is where drivers register.
	recordsDir, registryDir = "csi", "plugins_registry"
)

// layout computes the paths of volumes below the agent's root, which are a kubelet's.
type layout struct{ root string }

// podDir returns the directory of a pod.
func (l layout) podDir(pod types.UID) (string, error) {
	if err := safepath.Element("pod UID", string(pod)); err != nil {
		return "", err
	}
	return filepath.Join(l.root, "pods", string(pod)), nil
}

// escape converts the name of a plugin to a directory name.
func escape(name string) string { return strings.ReplaceAll(name, "/", "~") }

// target returns where a volume is published for a pod: for a CSI driver below the directory of the volume, which the
// agent owns.
func (l layout) target(pod types.UID, s *source) (string, error) {
	switch {
	case s.Plugin == hostPlugin:
		return s.Path, nil
	case s.Block && s.Plugin == localPlugin:
		return s.Path, nil
	case s.Block:
		if err := safepath.Element("pod UID", string(pod)); err != nil {
			return "", err
		}
		return filepath.Join(l.root, "plugins", csiPlugin, "volumeDevices", "publish", s.Name, string(pod)), nil
	}
	dir, err := l.podDir(pod)
	dir = filepath.Join(dir, "volumes", escape(s.Plugin), s.Name)
	if s.Plugin == csiPlugin {
		dir = filepath.Join(dir, "mount")
	}
	return dir, err
}

// staging returns where a CSI driver stages a volume.
func (l layout) staging(s *source) string {
	if s.Block {
		return filepath.Join(l.root, "plugins", csiPlugin, "volumeDevices", "staging", s.Name)
	}
	sum := sha256.Sum256([]byte(s.Handle))
	return filepath.Join(l.root, "plugins", csiPlugin, s.Driver, hex.EncodeToString(sum[:]), "globalmount")
}

// record returns the path of the record of a volume.
func (l layout) record(id VolumeID) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(l.root, recordsDir, hex.EncodeToString(sum[:])+".json")
}

// isMounted reports whether something is mounted at a path. Nothing is mounted where there is nothing.
func isMounted(path string) (bool, error) {
	at, err := mounts.At(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return at, err
}

// removeEmptyDir removes a directory that has nothing in it, and on which nothing is mounted. Whatever else is there
// stays: it may be data.
func removeEmptyDir(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", path)
	}
	if at, err := isMounted(path); at || err != nil {
		return errors.Join(err, fmt.Errorf("%s is still mounted", path))
	}
	return os.Remove(path)
}

// removeDeviceFile removes the file that a driver has mounted a block device on, if it is empty.
func removeDeviceFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > 0:
		return fmt.Errorf("%s is kept: it is no empty file", path)
	}
	if at, err := isMounted(path); at || err != nil {
		return errors.Join(err, fmt.Errorf("%s is still mounted", path))
	}
	return os.Remove(path)
}
