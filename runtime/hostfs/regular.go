package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrNotRegular is wrapped by the error if a name does not refer to a regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrTooLarge is wrapped by the error if a file is larger than the caller's limit.
var ErrTooLarge = errors.New("the file is too large")

// Read returns the content from a regular file that has at most limit bytes. A larger one is
// not read. It follows no link ending name.
func Read(root *os.Root, name string, limit int64) ([]byte, error) {
	file, info, err := Open(root, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, info, name, limit)
}

func readAll(file *os.File, info fs.FileInfo, name string, limit int64) ([]byte, error) {
	if info.Size() > limit {
		return nil, tooLarge(name, limit)
	}
	var text bytes.Buffer
	text.Grow(int(info.Size()) + bytes.MinRead)            // so that one read suffices
	_, err := text.ReadFrom(io.LimitReader(file, limit+1)) // the file may grow in the meantime
	if err == nil && int64(text.Len()) > limit {
		err = tooLarge(name, limit)
	}
	if err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// Names returns the names in a directory, unsorted. Names includes a file that is renamed during the call under its old or its
// new name, but in rare cases a file system omits it. ReadDir on a Root stats each file after it has read the names, and omits
// files whose names have changed in between.
func Names(root *os.Root, dir string) ([]string, error) {
	inside, err := root.OpenRoot(dir + "/.") // not a FIFO, even if one has replaced it
	if err != nil {
		return nil, err
	}
	defer inside.Close()
	f, err := inside.Open(".")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func tooLarge(name string, limit int64) error {
	return fmt.Errorf("%q has more than %d bytes: %w", name, limit, ErrTooLarge)
}

func notRegular(name string) error { return fmt.Errorf("%q is %w", name, ErrNotRegular) }

// maxLinks is how many links Resolve follows, as many as an os.Root does.
const maxLinks = 8

// Resolve follows links ending name inside root, and returns their target's name, or name itself if it is not a
// link. The result may change afterwards: pass it to a function that follows no link.
func Resolve(root *os.Root, name string) (string, error) {
	for range maxLinks {
		info, err := root.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, err
		}
		to, err := root.Readlink(name)
		if err != nil {
			return "", err
		}
		if filepath.IsAbs(to) {
			return "", fmt.Errorf("the link %q escapes from its directory", name)
		}
		name = filepath.Dir(name) + "/" + to // not cleaned: the meaning of ".." depends on links before it
	}
	return "", fmt.Errorf("%q: %w: more than %d links", name, ErrNotRegular, maxLinks)
}

// ReadPath reads a file on the node as [Read] does, but follows links anywhere.
func ReadPath(path string, limit int64) ([]byte, error) {
	file, info, err := OpenPath(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, info, path, limit)
}

// OpenPath opens a file on the node as [Open] does, but follows links anywhere.
func OpenPath(path string) (*os.File, fs.FileInfo, error) {
	to, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, nil, err
	}
	root, err := os.OpenRoot(filepath.Dir(to))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	file, info, err := Open(root, filepath.Base(to))
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return file, info, nil
}
