package rotate

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// memberSize is the number of bytes in a file that are compressed at a time. Each chunk becomes a gzip member in
// the compressed file, so that compression can be resumed.
const memberSize = 1 << 20

// partial is a compression's progress.
type partial struct {
	// name is the source file, "" if no compression is in progress.
	name string
	// read counts the compressed bytes from the source, written those in the result.
	read, written int64
	// file identifies the compressed file, once it exists.
	file fs.FileInfo
}

// compress compresses a file, syncs the result to disk, gives it its final name, and removes the
// source. If ctx ends before, done is false and p records the progress, with which the next call
// resumes. A source that no longer exists, for example because its container was removed, needs no
// compression.
func compress(ctx context.Context, dir folder, name, to string, p *partial) (done bool, err error) {
	temporary := to + ".tmp"
	from, err := openRegular(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		*p = partial{}
		return true, removeIfThere(dir, temporary)
	}
	if err != nil {
		return false, err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return false, err
	}
	if p.name != name {
		*p = partial{name: name}
	}
	done, err = compressTo(ctx, dir, temporary, from, info, p)
	if err == nil && !done {
		return false, nil
	}
	*p = partial{}
	if err == nil { // readers use the modification time as the time of the last line
		err = dir.Chtimes(temporary, info.ModTime(), info.ModTime())
	}
	if err == nil {
		err = dir.Rename(temporary, to)
	}
	if err != nil {
		return false, errors.Join(err, removeIfThere(dir, temporary))
	}
	return true, dir.Remove(name)
}

// compressTo compresses the rest of the source until ctx ends.
func compressTo(ctx context.Context, dir folder, name string, from *os.File, info fs.FileInfo, p *partial) (done bool, err error) {
	file, err := p.reopen(dir, name)
	if err == nil && file == nil {
		*p = partial{name: p.name}
		file, err = p.create(dir, name, info.Mode().Perm())
	}
	if err != nil {
		return false, err
	}
	for err == nil && !done && ctx.Err() == nil {
		done, err = compressMember(file, from, info, p)
	}
	if err == nil {
		err = file.Sync()
	}
	return done, errors.Join(err, file.Close())
}

// create creates the compressed file. It removes any file with that name.
func (p *partial) create(dir folder, name string, mode fs.FileMode) (*os.File, error) {
	if err := removeIfThere(dir, name); err != nil {
		return nil, err
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	if p.file, err = file.Stat(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// reopen opens the compressed file to continue it. It returns nil if the file does not exist or is
// not the one that compress left: a file that took its name must not be written to. O_NONBLOCK
// keeps a FIFO with that name from blocking the call.
func (p *partial) reopen(dir folder, name string) (*os.File, error) {
	if p.file == nil || !p.left(dir.Lstat(name)) {
		return nil, nil
	}
	file, err := dir.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if !p.left(file.Stat()) {
		return nil, file.Close()
	}
	return file, nil
}

// left reports whether the file is unchanged since compress left it.
func (p *partial) left(info fs.FileInfo, err error) bool {
	return err == nil && os.SameFile(info, p.file) && info.Size() == p.written
}

// compressMember compresses the source's next chunk, and reports whether it was the last.
func compressMember(file, from *os.File, info fs.FileInfo, p *partial) (last bool, err error) {
	to := &counted{WriterAt: file, at: p.written}
	w := gzip.NewWriter(to)
	w.ModTime = info.ModTime()
	n, err := io.Copy(w, io.NewSectionReader(from, p.read, memberSize))
	if err == nil {
		err = w.Close()
	}
	p.read, p.written = p.read+n, to.at
	return n < memberSize, err
}

// counted writes to a file and counts the offset.
type counted struct {
	io.WriterAt
	at int64
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.WriteAt(b, c.at)
	c.at += int64(n)
	return n, err
}

func removeIfThere(dir folder, name string) error {
	if err := dir.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openRegular opens a regular file. Opening any other file could block or follow a link.
func openRegular(dir folder, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO that took its place must not block
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced", name), err, file.Close())
	}
	return file, nil
}
