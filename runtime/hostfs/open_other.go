//go:build !linux

package hostfs

import (
	"errors"
	"io/fs"
	"os"
)

// Open opens a regular file for reading, and returns its FileInfo. It does not follow a link ending
// name, and links before that cannot lead outside root.
func Open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, notRegular(name)
	}
	file, err := root.Open(name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := file.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = notRegular(name)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, opened, nil
}
