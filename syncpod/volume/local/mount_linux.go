package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// mountMemory mounts a file system in memory. A tmpfs is not swapped to disk if the kernel supports that (Linux
// 6.4). If it is world-writable it is sticky, which is the kernel's default and a kubelet's.
func mountMemory(d directory, in memory) error {
	mode := d.mode.Perm()
	if d.mode&fs.ModeSetgid != 0 {
		mode |= syscall.S_ISGID
	}
	if mode&0o002 != 0 {
		mode |= syscall.S_ISVTX
	}
	options := fmt.Sprintf("mode=%04o", mode)
	if d.group != keep {
		options += fmt.Sprintf(",gid=%d", d.group)
	}
	if in.pages > 0 { // its size is limited by the huge pages that the pod's cgroup may use
		return syscall.Mount("hugetlbfs", d.path, "hugetlbfs", 0, fmt.Sprintf("%s,pagesize=%d", options, in.pages))
	}
	if in.size > 0 {
		options += fmt.Sprintf(",size=%d", in.size)
	}
	err := syscall.Mount("tmpfs", d.path, "tmpfs", 0, options+",noswap")
	if errors.Is(err, syscall.EINVAL) {
		err = syscall.Mount("tmpfs", d.path, "tmpfs", 0, options)
	}
	return err
}

// isolate ends the propagation between a mount, with the mounts in it, and other mounts for the same
// directory.
func isolate(point string) error {
	if err := syscall.Mount("", point, "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("isolate %s: %w", point, err)
	}
	return nil
}

// pin mounts the current file or directory at a path in the volume at target. It resolves the path
// and mounts the descriptor, whatever happens to the path afterwards. It opens no file, so a socket, a FIFO or a device is
// mounted like a regular file (kubernetes #61377).
func pin(root *os.Root, below, target string) error {
	below, err := hostfs.Resolve(root, below)
	if err != nil {
		return err
	}
	f, err := root.OpenFile(below, mounts.PathOnly|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return errors.New("a link has replaced it")
	}
	if err := makeTarget(target, info.IsDir()); err != nil {
		return err
	}
	if err := syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind it: %w", err)
	}
	return nil
}

// makeTarget creates an empty directory or file to mount on. It removes an earlier container's target first.
func makeTarget(target string, dir bool) error {
	if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
		return err
	}
	if err := unpin(target); err != nil {
		return err
	}
	if dir {
		return os.Mkdir(target, 0o750)
	}
	return os.WriteFile(target, nil, 0o640)
}
