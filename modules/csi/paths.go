package csi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

const (
	dirMode = 0o750
	// recordsDir is the directory of the records below Config.Root, and registryDir the directory in which drivers
	// register.
	recordsDir, registryDir = "csi", "plugins_registry"
)

// layout computes the paths of volumes below the agent's root, in a kubelet's layout.
type layout struct{ root string }

// podDir returns a pod's directory.
func (l layout) podDir(pod types.UID) (string, error) {
	if err := hostfs.Element("pod UID", string(pod)); err != nil {
		return "", err
	}
	return filepath.Join(l.root, "pods", string(pod)), nil
}

// escape converts a plugin's name to a directory name.
func escape(name string) string { return strings.ReplaceAll(name, "/", "~") }

// target returns the path at which a volume is published for a pod. For a CSI driver it is below the volume's
// directory, which belongs to the agent.
func (l layout) target(pod types.UID, s *source) (string, error) {
	switch {
	case s.Plugin == hostPlugin:
		return s.Path, nil
	case s.Block && s.Plugin == localPlugin:
		return s.Path, nil
	case s.Block:
		if err := hostfs.Element("pod UID", string(pod)); err != nil {
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

// staging returns the path at which a CSI driver stages a volume, or at which the agent mounts a local volume's
// device.
func (l layout) staging(s *source) string {
	if s.Plugin == localPlugin {
		return filepath.Join(l.root, "plugins", localPlugin, "mounts", s.Name)
	}
	if s.Block {
		return filepath.Join(l.root, "plugins", csiPlugin, "volumeDevices", "staging", cmp.Or(s.StagedAs, s.Name))
	}
	sum := sha256.Sum256([]byte(s.Handle))
	return filepath.Join(l.root, "plugins", csiPlugin, s.Driver, hex.EncodeToString(sum[:]), "globalmount")
}

// record returns a volume's record path.
func (l layout) record(id VolumeID) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(l.root, recordsDir, hex.EncodeToString(sum[:])+".json")
}

// isMounted reports whether a path is a mount point. It returns false if the path does not exist.
func isMounted(path string) (bool, error) {
	at, err := mounts.At(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return at, err
}

// removeEmptyDir removes a directory that is empty and not a mount point. It keeps anything else, which may be data.
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

// removeDeviceFile removes the empty file on which a driver has mounted a block device.
func removeDeviceFile(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Size() > 0:
		return fmt.Errorf("%s is kept: it is not an empty file", path)
	}
	if at, err := isMounted(path); at || err != nil {
		return errors.Join(err, fmt.Errorf("%s is still mounted", path))
	}
	return os.Remove(path)
}
