package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// localBackend mounts local PersistentVolumes, and checks hostPath PersistentVolumes.
type localBackend struct{ layout }

// stage mounts the file system of a local volume that is a block device. A directory needs no staging.
func (b localBackend) stage(ctx context.Context, s *source, _ Pod) error {
	if device, err := isDevice(s.Path); err != nil || !device {
		return notStartedIf(err)
	}
	path := b.staging(s)
	if at, err := isMounted(path); at || err != nil {
		return notStartedIf(err)
	}
	if err := os.MkdirAll(path, dirMode); err != nil {
		return notStarted{err}
	}
	if err := mountDevice(ctx, s, path); err != nil {
		_ = removeEmptyDir(path) // the next attempt creates it again
		return err
	}
	return nil
}

func (b localBackend) unstage(_ context.Context, s *source) error { return unmountAll(b.staging(s)) }

// expand expands the file system of a device. The node's operator has expanded that of a directory.
func (b localBackend) expand(ctx context.Context, s *source, _ types.UID) error {
	if device, err := isDevice(s.Path); err != nil || !device {
		return notStartedIf(err)
	}
	return growFS(ctx, s.Path, b.staging(s))
}

// fileSystem returns a local volume's directory: its path, or the directory at which its device is mounted.
func (b localBackend) fileSystem(s *source) (string, error) {
	device, err := isDevice(s.Path)
	if err != nil {
		return "", err
	}
	if !device {
		return s.Path, nil
	}
	at, err := isMounted(b.staging(s))
	if err == nil && !at {
		err = fmt.Errorf("%s is not mounted at %s", s.Path, b.staging(s))
	}
	return b.staging(s), err
}

// publish bind-mounts the directory of a local volume for the pod, or checks the type of a hostPath.
func (b localBackend) publish(ctx context.Context, s *source, pod Pod) error {
	if s.Plugin == hostPlugin {
		if len(s.MountOptions) > 0 {
			return notStarted{errors.New("mountOptions: not supported for a hostPath")}
		}
		return checkType(s)
	}
	if s.Block {
		return checkDevice(s.Path)
	}
	from, err := b.fileSystem(s)
	if err == nil && from == s.Path && len(s.MountOptions) > 0 {
		err = errors.New("mountOptions: not supported for a directory of the node")
	}
	if err != nil {
		return notStarted{err}
	}
	target, err := b.target(types.UID(pod.UID), s)
	if err != nil {
		return notStarted{err}
	}
	if err := os.MkdirAll(target, dirMode); err != nil {
		return notStarted{err}
	}
	if err := bindOnce(from, target); err != nil {
		return err
	}
	if pod.FSGroup == nil || s.ReadOnly {
		return nil
	}
	return setOwnership(ctx, target, int(*pod.FSGroup), pod.Always)
}

// bindOnce mounts a directory at target, unless it is mounted there already. A mount of another directory is an error: an
// agent whose record for it is lost may have left it.
func bindOnce(from, target string) error {
	at, err := isMounted(target)
	if err != nil {
		return err
	}
	if !at {
		if err := bind(from, target); err != nil {
			return errors.Join(notStarted{err}, removeEmptyDir(target))
		}
		return nil
	}
	want, err := os.Stat(from)
	if err != nil {
		return err
	}
	has, err := os.Stat(target)
	if err == nil && !os.SameFile(want, has) {
		err = fmt.Errorf("another directory than %s is mounted at %s", from, target)
	}
	return err
}

// unpublish unmounts a local volume from the pod's directory.
func (b localBackend) unpublish(_ context.Context, s *source, pod types.UID) error {
	if s.Plugin == hostPlugin || s.Block {
		return nil
	}
	target, err := b.target(pod, s)
	if err != nil {
		return err
	}
	return unmountAll(target)
}

// unmountAll unmounts whatever is mounted at a path, and removes the mount point if it is empty. Files in it do not
// belong to the volume, and are kept.
func unmountAll(path string) error {
	for {
		at, err := isMounted(path)
		if err != nil {
			return err
		}
		if !at {
			return removeEmptyDir(path)
		}
		if err := unmount(path); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
}

// checkDevice returns an error unless the path is a block device.
func checkDevice(path string) error {
	device, err := isDevice(path)
	if err == nil && !device {
		err = fmt.Errorf("%s is not a block device", path)
	}
	return notStartedIf(err)
}

// checkType checks the type of a hostPath, and creates the file or directory if the type requires it.
func checkType(s *source) error {
	kind := v1.HostPathUnset
	if s.Type != nil {
		kind = *s.Type
	}
	if kind == v1.HostPathUnset {
		return nil
	}
	info, err := os.Stat(s.Path)
	if errors.Is(err, fs.ErrNotExist) {
		switch kind {
		case v1.HostPathDirectoryOrCreate:
			err = os.MkdirAll(s.Path, 0o755)
		case v1.HostPathFileOrCreate:
			err = createFile(s.Path)
		}
		if err == nil {
			info, err = os.Stat(s.Path)
		}
	}
	if err == nil && !hasType(info.Mode(), kind) {
		err = fmt.Errorf("hostPath type check failed: %s is not of type %s", s.Path, kind)
	}
	if err != nil {
		return notStarted{err}
	}
	return nil
}

func createFile(path string) error {
	f, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

func hasType(mode fs.FileMode, kind v1.HostPathType) bool {
	switch kind {
	case v1.HostPathDirectoryOrCreate, v1.HostPathDirectory:
		return mode.IsDir()
	case v1.HostPathFileOrCreate, v1.HostPathFile:
		return mode.IsRegular()
	case v1.HostPathSocket:
		return mode&fs.ModeSocket != 0
	case v1.HostPathCharDev:
		return mode&fs.ModeCharDevice != 0
	case v1.HostPathBlockDev:
		return mode&fs.ModeDevice != 0 && mode&fs.ModeCharDevice == 0
	}
	return false
}
