package csi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

const (
	// unmountNoFollow is UMOUNT_NOFOLLOW of umount(2).
	unmountNoFollow = 0x8
	// maxDepth is the maximum depth of a volume whose files are given to a group.
	maxDepth = 512
	// namesAtOnce is the number of directory entries that are read at a time.
	namesAtOnce = 256
)

// bind mounts a directory at target. It opens target first and mounts at the descriptor, so that a change to the path
// has no effect.
func bind(path, target string) error {
	f, err := os.OpenFile(path, mounts.PathOnly|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("bind", syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), target, "", syscall.MS_BIND|syscall.MS_REC, ""))
}

// unmount unmounts a path. It fails while a process uses the mount.
func unmount(path string) error {
	err := syscall.Unmount(path, unmountNoFollow)
	if errors.Is(err, syscall.EBUSY) { // mounts below it, or a copy that is being removed
		err = mounts.Detach(path)
	}
	return err
}

// setOwnership gives a directory and its contents to a group, with read and write permission. Unless always is set, it
// does nothing if the directory itself belongs to the group already. The directory is changed last, so that an
// interrupted change starts again. Containers may write to the volume meanwhile: setOwnership follows no link out of the
// volume, and enters no other mount.
func setOwnership(ctx context.Context, dir string, group int, always bool) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(".")
	if err != nil {
		return err
	}
	if !always && info.Mode()&groupMode(info) == groupMode(info) && groupOf(info) == group {
		return nil
	}
	mount, err := mountOf(root)
	if err != nil {
		return err
	}
	g := ownership{ctx: ctx, group: group, mount: mount}
	if err := g.changeContents(root, 0); err != nil {
		return err
	}
	return g.change(root, ".")
}

// ownership gives a tree's files to a group.
type ownership struct {
	ctx   context.Context
	group int
	mount string
}

// changeContents changes a directory's contents.
func (g ownership) changeContents(dir *os.Root, depth int) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(namesAtOnce)
		for _, e := range entries {
			if err := g.changeEntry(dir, e.Name(), depth); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, io.EOF) || err != nil {
			return ignoreEOF(err)
		}
	}
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// changeEntry changes one entry in a directory, after its contents.
func (g ownership) changeEntry(dir *os.Root, name string, depth int) error {
	if err := g.ctx.Err(); err != nil {
		return err
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return g.change(dir, name)
	}
	if depth >= maxDepth {
		return fmt.Errorf("the volume has more than %d levels of directories", maxDepth)
	}
	below, err := dir.OpenRoot(name + "/.") // not a FIFO, even if one has replaced it
	if err != nil {
		return err
	}
	defer below.Close()
	if mount, err := mountOf(below); err != nil || mount != g.mount {
		return err
	}
	if err := g.changeContents(below, depth+1); err != nil {
		return err
	}
	return g.change(dir, name)
}

// emptyPath is AT_EMPTY_PATH of fchownat(2): the descriptor itself is changed.
const emptyPath = 0x1000

// change changes one file or directory by its descriptor: a container that already has the volume may replace the file
// at any moment, and the replacement must not get this file's mode, such as setuid.
func (g ownership) change(dir *os.Root, name string) error {
	f, err := dir.OpenFile(name, mounts.PathOnly|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := syscall.Fchownat(int(f.Fd()), "", -1, g.group, emptyPath); err != nil {
		return &fs.PathError{Op: "chown", Path: name, Err: err}
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil // a link has its target's mode
	}
	return os.Chmod("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), info.Mode()|groupMode(info))
}

// groupMode returns the permission bits that the group needs, as a kubelet sets them.
func groupMode(info fs.FileInfo) fs.FileMode {
	if info.IsDir() {
		return 0o770 | fs.ModeSetgid
	}
	return 0o660
}

func groupOf(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Gid)
	}
	return -1
}

func mountOf(root *os.Root) (string, error) {
	f, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer f.Close()
	return mounts.Of(int(f.Fd()))
}
