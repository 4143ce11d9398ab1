package filetree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"syscall"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// trash is the directory at the top to which directories are moved before they are emptied.
	trash = ".removed"
	// names is the number of names of a directory that are read at a time.
	names = 256
	// maxQueue limits the directories in trash that are queued in memory. Others are listed again.
	maxQueue = 1024
	// maxNested limits the nested directories that are emptied in place.
	maxNested = 32
)

// Empty removes everything in root. It moves each non-empty directory to the top before it empties
// it: no process that has the directory mounted reaches it there, and no path leads through a
// directory that could be replaced by a link. A mount point cannot be moved: Empty returns an error
// for it and removes nothing behind it. An interrupted Empty can be called again.
//
// A file system may refuse to move a directory within a mount: btrfs out of a subvolume, overlayfs
// a directory of a lower layer. Such a directory is emptied in place, with a trash directory of its
// own.
func Empty(ctx context.Context, root *os.Root) error {
	e := newEmptier(ctx, root, ".")
	e.top = e
	return e.run()
}

// An emptier empties one directory.
type emptier struct {
	ctx  context.Context
	root *os.Root
	// base is the directory, below root, and trash its path with the name trash.
	base, trash string
	// top is the emptier of root itself; depth is the number of emptiers above this one.
	top   *emptier
	depth int
	// queue are directories in trash.
	queue []string
	// prefix is the prefix of this emptier's names in trash, and made counts them. It is random, so
	// that it differs from names that an earlier call has left.
	prefix string
	made   int
}

func newEmptier(ctx context.Context, root *os.Root, base string) *emptier {
	return &emptier{ctx: ctx, root: root, base: base, trash: path.Join(base, trash), prefix: rand.Text() + "-"}
}

// run empties the directory. It first removes the contents of trash that an earlier call has left, so that trash does
// not grow.
func (e *emptier) run() error {
	if err := e.makeTrash(); err != nil {
		return err
	}
	if err := e.emptyTrash(); err != nil {
		return err
	}
	if _, err := e.discardAll(e.base); err != nil {
		return err
	}
	if err := e.emptyTrash(); err != nil {
		return err
	}
	return e.root.Remove(e.trash)
}

func (e *emptier) emptyTrash() error {
	for left := true; left; {
		if err := e.discardQueue(); err != nil {
			return err
		}
		var err error
		if left, err = e.each(e.trash, func(_ *os.Root, name string) error {
			if err := e.discardFound(path.Join(e.trash, name)); err != nil {
				return err
			}
			return e.discardQueue()
		}); err != nil {
			return err
		}
	}
	return nil
}

// makeTrash creates the directory trash, unless it is left from an earlier call.
func (e *emptier) makeTrash() error {
	info, err := e.root.Lstat(e.trash)
	if err == nil && !info.IsDir() {
		err = errors.Join(e.root.Remove(e.trash), fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return e.root.Mkdir(e.trash, 0o700)
	}
	return err
}

func (e *emptier) discardQueue() error {
	for len(e.queue) > 0 {
		last := len(e.queue) - 1
		dir := e.queue[last]
		e.queue = e.queue[:last]
		if err := e.discardMoved(dir); err != nil {
			return err
		}
	}
	return nil
}

// discardFound removes an entry of trash that this call did not create; it may be a mount point.
func (e *emptier) discardFound(name string) error {
	if info, err := e.root.Lstat(name); err == nil && info.IsDir() {
		same, err := sameMount(e.root, name)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
		case err != nil:
			return err
		case !same:
			return &fs.PathError{Op: "remove", Path: hostfs.Quote(name), Err: syscall.EBUSY}
		}
	}
	return e.discardMoved(name)
}

// discardMoved removes an entry that this call moved to trash. It may have been removed already.
func (e *emptier) discardMoved(name string) error {
	info, err := e.root.Lstat(name)
	for left := err == nil && info.IsDir(); left; {
		if left, err = e.discardAll(name); err != nil {
			return err
		}
	}
	if err := e.root.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// discardAll removes all entries in a directory, or moves them to trash. It reports whether it found an entry.
func (e *emptier) discardAll(dir string) (found bool, err error) {
	return e.each(dir, func(in *os.Root, name string) error {
		if dir == e.base && name == trash {
			return nil
		}
		err := in.Remove(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if info, is := in.Lstat(name); is == nil && info.IsDir() {
			err = e.discardDir(path.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", hostfs.Quote(name), reason(err))
		}
		return nil
	})
}

// discardDir moves a directory to the trash at the top or, where the file system refuses that, to the nearest one. If
// it refuses that too, the directory is emptied where it is. A subvolume can be moved to the top from any directory, so
// nested subvolumes do not nest emptiers.
func (e *emptier) discardDir(dir string) error {
	err := e.top.move(dir)
	if errors.Is(err, syscall.EXDEV) && e != e.top {
		err = e.move(dir)
	}
	if !errors.Is(err, syscall.EXDEV) || e.depth >= maxNested {
		return err
	}
	if same, is := sameMount(e.root, dir); is != nil || !same {
		return errors.Join(err, is)
	}
	inner := newEmptier(e.ctx, e.root, dir)
	inner.top, inner.depth = e.top, e.depth+1
	if err := inner.run(); err != nil {
		return err
	}
	return e.root.Remove(dir)
}

// move moves a directory to trash. It does not search for a free name, because that takes too long
// in a trash with millions of names.
func (e *emptier) move(dir string) error {
	for {
		if err := e.ctx.Err(); err != nil {
			return err
		}
		to := path.Join(e.trash, e.prefix+strconv.Itoa(e.made))
		e.made++
		err := e.root.Rename(dir, to)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && len(e.queue) < maxQueue {
			e.queue = append(e.queue, to)
		}
		return err
	}
}

// each calls do with each entry in a directory; do may remove the entry. It reports whether there were any entries.
func (e *emptier) each(dir string, do func(in *os.Root, name string) error) (found bool, err error) {
	in, err := e.root.OpenRoot(dir + "/.") // not a FIFO, even if one has replaced it
	if err != nil {
		return false, err
	}
	defer in.Close()
	list, err := in.Open(".")
	if err != nil {
		return false, err
	}
	defer list.Close()
	for {
		some, err := list.Readdirnames(names)
		for _, name := range some {
			found = true
			if err := e.ctx.Err(); err != nil {
				return found, err
			}
			if err := do(in, name); err != nil {
				return found, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil:
			return found, err
		}
	}
}

// reason returns the cause of a failure without its paths.
func reason(err error) error {
	var file *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &file):
		return file.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}
