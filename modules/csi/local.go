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

// localBackend mounts local PersistentVolumes, and checks hostPath PersistentVolumes. They need no staging.
type localBackend struct{ layout }

func (localBackend) stage(context.Context, *source, Pod) error { return nil }

func (localBackend) unstage(context.Context, *source) error { return nil }

func (localBackend) expand(context.Context, *source, types.UID) error { return nil }

// publish bind-mounts the directory of a local volume for the pod, or checks the type of a hostPath.
func (b localBackend) publish(ctx context.Context, s *source, pod Pod) error {
	if len(s.MountOptions) > 0 {
		return notStarted{errors.New("mountOptions: not supported for a directory of the node")}
	}
	if s.Plugin == hostPlugin {
		return checkType(s)
	}
	if s.Block {
		return checkDevice(s.Path)
	}
	target, err := b.target(types.UID(pod.UID), s)
	if err != nil {
		return notStarted{err}
	}
	if err := os.MkdirAll(target, dirMode); err != nil {
		return notStarted{err}
	}
	if at, err := isMounted(target); err != nil {
		return err
	} else if !at {
		if err := bind(s.Path, target); err != nil {
			return errors.Join(notStarted{err}, removeEmptyDir(target))
		}
	}
	if pod.FSGroup == nil || s.ReadOnly {
		return nil
	}
	return setOwnership(ctx, target, int(*pod.FSGroup), pod.Always)
}

// unpublish unmounts a local volume. It removes the mount point from the pod's directory if that is empty. Other files
// there do not belong to the volume, and are kept.
func (b localBackend) unpublish(_ context.Context, s *source, pod types.UID) error {
	if s.Plugin == hostPlugin || s.Block {
		return nil
	}
	target, err := b.target(pod, s)
	if err != nil {
		return err
	}
	for {
		at, err := isMounted(target)
		if err != nil {
			return err
		}
		if !at {
			return removeEmptyDir(target)
		}
		if err := unmount(target); err != nil {
			return fmt.Errorf("unmount %s: %w", target, err)
		}
	}
}

// checkDevice returns an error unless the path is a block device.
func checkDevice(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return notStarted{err}
	}
	if info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return notStarted{fmt.Errorf("%s is not a block device", path)}
	}
	return nil
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
