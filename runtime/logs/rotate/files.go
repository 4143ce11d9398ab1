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

// A folder is a log's directory. An *os.Root implements it.
type folder interface {
	FS() fs.FS
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
	Rename(from, to string) error
	Remove(name string) error
	Chtimes(name string, accessed, modified time.Time) error
}

// openDirectory opens a directory below a root, name by name. No name may be a link, which could
// lead to another pod's logs, and each directory must belong to the agent's user or to root.
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

// rotateIn carries out the steps for the log, except compressions, which it returns. partial is the
// compression in progress, if any.
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
			continue // it was removed in the meantime
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

// reopenLog asks the runtime to reopen the log. If the runtime rejects that, the log gets its name
// back, because the runtime keeps writing to that file. If the outcome is unknown, the renamed file
// keeps its new name.
func reopenLog(ctx context.Context, dir folder, log, rotated string, reopen func(context.Context) error) error {
	err := reopen(context.WithoutCancel(ctx)) // a cancelled pass must not leave the log without a file
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
