package local

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

// checkHostPath checks that the path matches its type, or creates it. Event messages are a
// kubelet's, because users search for them.
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

// createHostPath creates a missing path if its type allows that. A file's directory must exist.
func createHostPath(t v1.HostPathType, path string) error {
	switch t {
	case v1.HostPathDirectoryOrCreate:
		return makeHostDir(path)
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

// makeHostDir creates a directory and its missing parents. It follows existing links. But it creates each
// missing directory inside its open parent, so that it does not follow a link that a container creates in
// the meantime, and changes nothing else.
func makeHostDir(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	above, missing := filepath.Clean(path), []string(nil)
	parent, err := (*os.Root)(nil), fs.ErrNotExist
	for errors.Is(err, fs.ErrNotExist) && above != filepath.Dir(above) {
		missing = append(missing, filepath.Base(above))
		above = filepath.Dir(above)
		parent, err = os.OpenRoot(above + onlyDir)
	}
	if err != nil {
		return err
	}
	defer func() { parent.Close() }()
	for _, name := range slices.Backward(missing) {
		next, err := makeDirIn(parent, name, 0o755)
		if err != nil {
			return err
		}
		parent.Close()
		parent = next
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
