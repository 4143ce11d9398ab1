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

// memberSize is how much of a file is compressed at a time. A compressed file consists of a gzip
// member for each, and so can be continued.
const memberSize = 1 << 20

// partial is how far the compression of a file has come.
type partial struct {
	// name is the file, "" if no compression is in progress.
	name string
	// read are the bytes of the file that are compressed, written the bytes that they take.
	read, written int64
	// file is the compressed file, once it was created.
	file fs.FileInfo
}

// compress makes of a file a compressed one, which is on the disk before it takes its
// name, and then removes the file. If ctx ends before, it is not done: p is how far it has
// come, and the next call with that continues. A file that was removed, for example with its
// container, needs no compression.
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
	if err == nil { // readers go by when it was written to last
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

// compressTo compresses what p has left of a file, until ctx ends.
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

// create creates the compressed file. Whatever has its name is removed.
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

// reopen opens the compressed file to continue it. It returns nil if there is none, or not as it was
// left: a file that has taken its name must not be written to. A FIFO is not opened, and one that
// takes the name in between does not block.
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

// left reports whether a file is the compressed file as it was left.
func (p *partial) left(info fs.FileInfo, err error) bool {
	return err == nil && os.SameFile(info, p.file) && info.Size() == p.written
}

// compressMember compresses the next part of a file, and reports whether it was the last.
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

// counted writes to a place in a file, and knows where it is.
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

// openRegular opens a regular file. Anything else could block, or lead elsewhere.
func openRegular(dir folder, name string) (*os.File, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO that has taken its place does not block
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced", name), err, file.Close())
	}
	return file, nil
}
