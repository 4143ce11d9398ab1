package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// checkHostPath checks that the path is what its type says, or makes it so. What an event tells
// of a path that is not has the words of a kubelet, by which it is looked for.
func checkHostPath(source *v1.HostPathVolumeSource) error {
	path := filepath.FromSlash(source.Path)
	if !filepath.IsAbs(path) {
		return fmt.Errorf("hostPath.path %q is not an absolute path", source.Path)
	}
	if slices.Contains(strings.Split(source.Path, "/"), "..") {
		return fmt.Errorf("hostPath.path %q has .. as an element", source.Path)
	}
	if source.Type == nil || *source.Type == v1.HostPathUnset {
		return nil
	}
	if err := createHostPath(*source.Type, path); err != nil {
		return fmt.Errorf("hostPath.type %s: %w", *source.Type, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("hostPath type check failed: %s: %w", *source.Type, err)
	}
	is, known := isOfType(*source.Type, info.Mode())
	if !known {
		return fmt.Errorf("hostPath.type %q is not known", *source.Type)
	}
	if !is {
		return fmt.Errorf("hostPath type check failed: hostPath.path %s is not of type %s", source.Path, *source.Type)
	}
	return nil
}

// createHostPath makes what is not there and may be made. A file's directory
// must be there.
func createHostPath(t v1.HostPathType, path string) error {
	switch t {
	case v1.HostPathDirectoryOrCreate:
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)) // whatever the process's umask
	case v1.HostPathFileOrCreate:
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return errors.Join(f.Chmod(0o644), f.Close())
	}
	return nil
}

func isOfType(t v1.HostPathType, mode fs.FileMode) (is, known bool) {
	switch t {
	case v1.HostPathDirectoryOrCreate, v1.HostPathDirectory:
		return mode.IsDir(), true
	case v1.HostPathFileOrCreate, v1.HostPathFile:
		return mode.IsRegular(), true
	case v1.HostPathSocket:
		return mode&fs.ModeSocket != 0, true
	case v1.HostPathCharDev:
		return mode&fs.ModeCharDevice != 0, true
	case v1.HostPathBlockDev:
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0, true
	}
	return false, false
}
