package rotate

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// compress makes of a file a compressed one, which is on the disk before it takes its
// name, and then removes the file.
func compress(ctx context.Context, dir folder, name, to string) error {
	from, err := openRegular(dir, name)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	temporary := to + ".tmp"
	err = compressTo(ctx, dir, temporary, from, info)
	if err == nil { // readers go by when it was written to last
		err = dir.Chtimes(temporary, info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = dir.Rename(temporary, to)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(dir, temporary))
	}
	return dir.Remove(name)
}

func compressTo(ctx context.Context, dir folder, name string, from io.Reader, info fs.FileInfo) error {
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	w := gzip.NewWriter(file)
	w.ModTime = info.ModTime()
	_, err = io.Copy(w, reader{ctx, from})
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func removeIfThere(dir folder, name string) error {
	if err := dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openRegular opens a regular file. Anything else could block, or lead elsewhere.
func openRegular(dir folder, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced", name), err, file.Close())
	}
	return file, nil
}

// A reader reads until its context ends.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(b)
}
