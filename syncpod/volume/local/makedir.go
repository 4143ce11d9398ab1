package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// onlyDir ending a path makes the kernel reject everything but a directory. Without it, a FIFO
// created by a container would be opened, and would wait for a writer.
const onlyDir = "/."

// makeDirIn creates a directory with that mode, whatever the process's umask, unless the name
// exists, and opens it. If parent has its setgid bit set, the directory has its group. Containers
// may write to parent: no link is followed, and only the created directory's mode is changed.
func makeDirIn(parent *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	err := parent.Mkdir(name, mode.Perm())
	exists := errors.Is(err, fs.ErrExist)
	if err != nil && !exists {
		return nil, err
	}
	if exists {
		dir, _, err := enter(parent, name)
		return dir, err
	}
	return takeOver(parent, name, mode)
}

// takeOver opens the directory that was just created, and sets its mode. It checks the directory, because a
// container may have replaced it in the meantime.
func takeOver(parent *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	dir, info, err := enter(parent, name)
	if err != nil {
		return nil, err
	}
	if err := setMode(dir, info, mode); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// enter opens the directory with that name, which must not be a link, and returns its
// FileInfo.
func enter(parent *os.Root, name string) (*os.Root, fs.FileInfo, error) {
	found, err := parent.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !found.IsDir() {
		return nil, nil, fmt.Errorf("%q is not a directory", name)
	}
	return open(parent, name, found)
}

// open opens a directory that was found under that name.
func open(parent *os.Root, name string, found fs.FileInfo) (*os.Root, fs.FileInfo, error) {
	dir, err := parent.OpenRoot(name + onlyDir)
	if err != nil {
		return nil, nil, err
	}
	info, err := dir.Stat(".")
	if err == nil && !os.SameFile(found, info) {
		err = errReplaced
	}
	if err != nil {
		return nil, nil, errors.Join(err, dir.Close())
	}
	return dir, info, nil
}

var errReplaced = errors.New("it was replaced while it was made")

// setMode sets the mode for a directory that was just created. If the directory is not empty, or
// has other owners or more permissions than requested, it was replaced.
func setMode(dir *os.Root, made fs.FileInfo, mode fs.FileMode) error {
	if made.Mode()&^fs.ModeType == mode {
		return nil
	}
	file, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Readdirnames(1)
	more := made.Mode().Perm()&^mode.Perm() | made.Mode()&(fs.ModeSticky|fs.ModeSetuid)
	if !errors.Is(err, io.EOF) || more != 0 || !isOwned(made, os.Geteuid(), keep) {
		return errReplaced
	}
	return chmodDir(file, mode)
}
