package mounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// PathOnly is O_PATH of open(2): it resolves a file without opening it.
const PathOnly = 0x200000

// Below returns the mount points at or below dir, the deepest first. dir must
// exist. If the error wraps [ErrTooLong], the kernel lists no mounts.
func Below(dir string) ([]string, error) {
	dir, err := real(dir)
	if err != nil {
		return nil, err
	}
	var points []string
	err = read(func(table io.Reader) (err error) {
		points, err = below(table, dir)
		return err
	})
	return points, err
}

// Shared reports whether the mount that holds dir is shared: whether mounts created in it appear in
// its copies, such as those of containers. dir must exist. An error that wraps [ErrTooLong] means
// that the kernel could not list the mounts.
func Shared(dir string) (bool, error) {
	f, err := os.OpenFile(dir, PathOnly|syscall.O_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer f.Close()
	id, err := Of(int(f.Fd()))
	if err != nil {
		return false, err
	}
	var is bool
	err = read(func(table io.Reader) (err error) {
		is, err = shared(table, id)
		return err
	})
	return is, err
}

// read opens the table of mounts for f.
func read(f func(table io.Reader) error) error {
	table, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	defer table.Close()
	err = f(table)
	if errors.Is(err, syscall.ENOMEM) {
		err = fmt.Errorf("%w: %w", ErrTooLong, err)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", table.Name(), err)
	}
	return nil
}

// At reports whether path is a mount point: whether it is on another mount than its parent
// directory. It does not read the table of mounts. path must exist; a symbolic link is not a mount
// point.
func At(path string) (bool, error) {
	var ids [2]string
	for i, name := range []string{filepath.Dir(path), path} {
		flags := PathOnly | syscall.O_CLOEXEC
		if name == path {
			flags |= syscall.O_NOFOLLOW
		}
		f, err := os.OpenFile(name, flags, 0)
		if err != nil {
			return false, err
		}
		ids[i], err = Of(int(f.Fd()))
		if err := errors.Join(err, f.Close()); err != nil {
			return false, err
		}
	}
	return ids[0] != ids[1], nil
}

// Of returns the mount's identifier on which a descriptor was opened. A bind mount has its own identifier,
// although its device may be the same.
func Of(fd int) (string, error) {
	info, err := os.Open("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", err
	}
	defer info.Close()
	var text [512]byte
	n, err := info.Read(text[:])
	if err != nil {
		return "", err
	}
	_, after, _ := bytes.Cut(text[:n], []byte("mnt_id:"))
	id, _, _ := bytes.Cut(after, []byte("\n"))
	if id = bytes.TrimSpace(id); len(id) > 0 {
		return string(id), nil
	}
	return "", errors.New("the kernel does not report the mount of a descriptor")
}
