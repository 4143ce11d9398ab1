package filetree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"

	"github.com/podsync/podsync/internal/base/safepath"
)

const (
	// trash is the directory at the top to which directories are moved before they are emptied.
	trash = ".removed"
	// names is how many names of a directory are read at a time.
	names = 256
	// maxQueue is how many directories in trash are remembered. The others are listed again.
	maxQueue = 1024
)

// Empty removes all that root contains. It moves each directory that is not empty to the top
// before it empties it: no process that has the directory mounted reaches it there, and no path
// leads through a directory that could become a link meanwhile. A mount point cannot be moved:
// it is an error, and nothing behind it is removed. An Empty that was cut short can be
// called again.
func Empty(ctx context.Context, root *os.Root) error {
	e := &emptier{ctx: ctx, root: root}
	if err := e.makeTrash(); err != nil {
		return err
	}
	if _, err := e.discardAll("."); err != nil {
		return err
	}
	for left := true; left; {
		if err := e.discardQueue(); err != nil {
			return err
		}
		var err error
		if left, err = e.each(trash, func(_ *os.Root, name string) error {
			if err := e.discardMoved(path.Join(trash, name)); err != nil {
				return err
			}
			return e.discardQueue()
		}); err != nil {
			return err
		}
	}
	return root.Remove(trash)
}

type emptier struct {
	ctx  context.Context
	root *os.Root
	// queue are directories in trash.
	queue []string
	// made counts the names in trash.
	made int
}

// makeTrash makes the directory trash, unless an earlier call has left it.
func (e *emptier) makeTrash() error {
	info, err := e.root.Lstat(trash)
	if err == nil && !info.IsDir() {
		err = errors.Join(e.root.Remove(trash), fs.ErrNotExist)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return e.root.Mkdir(trash, 0o700)
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

// discardMoved removes what is in trash by that name. It may have been removed already.
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

// discardAll removes all entries of a directory, or moves them to trash, and reports whether
// it found any.
func (e *emptier) discardAll(dir string) (found bool, err error) {
	return e.each(dir, func(in *os.Root, name string) error {
		if dir == "." && name == trash {
			return nil
		}
		err := in.Remove(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if info, is := in.Lstat(name); is == nil && info.IsDir() {
			err = e.move(dir, name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", safepath.Quote(name), reason(err))
		}
		return nil
	})
}

// move moves a directory to trash.
func (e *emptier) move(dir, name string) error {
	for {
		to := path.Join(trash, strconv.Itoa(e.made))
		e.made++
		if _, err := e.root.Lstat(to); err == nil {
			continue // an earlier call has left it
		}
		if err := e.root.Rename(path.Join(dir, name), to); err != nil {
			return err
		}
		if len(e.queue) < maxQueue {
			e.queue = append(e.queue, to)
		}
		return nil
	}
}

// each calls do with each entry of a directory, which may remove it, and reports whether there
// were any.
func (e *emptier) each(dir string, do func(in *os.Root, name string) error) (found bool, err error) {
	in, err := e.root.OpenRoot(dir)
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
