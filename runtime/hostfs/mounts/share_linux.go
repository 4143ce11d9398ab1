package mounts

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// unmountNoFollow is UMOUNT_NOFOLLOW of umount(2).
const unmountNoFollow = 0x8

// Detach unmounts a mount point at once; processes that use the mount keep it. A symbolic link is not followed.
func Detach(point string) error {
	if err := syscall.Unmount(point, unmountNoFollow|syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount %s: %w", point, err)
	}
	return nil
}

// Share makes root, which must exist, its own mount with shared propagation, unless it is on a shared mount already. The
// mounts below root are bound, too.
func Share(root string) error {
	root, err := filepath.Abs(root)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return err
	}
	if shared, err := Shared(root); shared || err != nil {
		return err
	}
	at, err := At(root)
	if err == nil && !at {
		err = bindToItself(root)
	}
	if err != nil {
		return err
	}
	return os.NewSyscallError("share", syscall.Mount("", root, "", syscall.MS_REC|syscall.MS_SHARED, ""))
}

// bindToItself mounts a directory on itself, with the mounts below it. The original mounts below it are then hidden under
// the new mount, where their paths no longer lead to them. bindToItself detaches them through the original directory's
// descriptor.
func bindToItself(dir string) error {
	below, err := Below(dir)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(dir, PathOnly|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return os.NewSyscallError("bind", err)
	}
	for _, point := range below {
		if err := Detach(fmt.Sprintf("/proc/self/fd/%d", f.Fd()) + strings.TrimPrefix(point, dir)); err != nil {
			return err
		}
	}
	return nil
}
