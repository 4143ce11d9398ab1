package rotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/podsync/podsync/runtime/cri"
)

// A folder is the directory of a log. An *os.Root is one.
type folder interface {
	FS() fs.FS
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Rename(from, to string) error
	Remove(name string) error
	Chtimes(name string, accessed, modified time.Time) error
}

// openDirectory opens a directory by the names that lead to it from a root. None of them
// may be a link, which could lead to the logs of another pod, and all belong to the agent's
// user or to root.
func openDirectory(path string, names ...string) (*os.Root, error) {
	root, err := os.OpenRoot(path)
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		path = filepath.Join(path, name)
		next, openErr := openIn(root, name, path)
		err = errors.Join(openErr, root.Close())
		root = next
	}
	return root, err
}

func openIn(root *os.Root, name, path string) (*os.Root, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is not a directory", path)
	}
	if err := checkOwner(info); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	next, err := root.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := next.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, errors.Join(fmt.Errorf("%s was replaced", path), err, next.Close())
	}
	return next, nil
}

// rotateIn does with the log of that name what is to be done, but for compressions, which it
// returns. partial is the compression that is in progress, if there is one.
func rotateIn(ctx context.Context, dir folder, log string, p Policy, partial partial, reopen func(context.Context) error) (compressions []Step, err error) {
	files, err := list(dir, partial)
	if err != nil {
		return nil, err
	}
	steps, err := Decide(log, files, p, time.Now())
	if err != nil {
		return nil, err
	}
	rotated := ""
	for _, step := range steps {
		if err := ctx.Err(); err != nil && step.Action != Reopen {
			return nil, err
		}
		switch step.Action {
		case Remove:
			err = dir.Remove(step.File)
		case Compress:
			compressions = append(compressions, step)
		case Rename:
			err, rotated = dir.Rename(step.File, step.To), step.To
		case Reopen:
			err = reopenLog(ctx, dir, log, rotated, reopen)
		}
		if err != nil {
			return nil, fmt.Errorf("%v: %w", step, err)
		}
	}
	return compressions, nil
}

func list(dir folder, partial partial) ([]File, error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return nil, err
	}
	var files []File
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		files = append(files, File{
			Name: e.Name(), Size: info.Size(), Regular: info.Mode().IsRegular(),
			InProgress: partial.name != "" && e.Name() == partial.name+unfinished,
		})
	}
	return files, nil
}

// reopenLog has the runtime write to a new file. If it refuses to, the log gets its name
// back: what the runtime goes on to write is where everybody looks for it. If it may have
// done so, or may yet do, the name is left to it.
func reopenLog(ctx context.Context, dir folder, log, rotated string, reopen func(context.Context) error) error {
	err := reopen(context.WithoutCancel(ctx)) // a log without a file is not left behind
	if err == nil || rotated == "" || cri.Ambiguous(err) {
		return err
	}
	if _, statErr := dir.Lstat(log); !errors.Is(statErr, fs.ErrNotExist) {
		return errors.Join(err, statErr)
	}
	if backErr := dir.Rename(rotated, log); backErr != nil {
		return errors.Join(err, fmt.Errorf("it did not get its name back: %w", backErr))
	}
	return err
}
