//go:build !linux

package filetree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// otherDepth bounds the depth where a descriptor is open at each level.
const otherDepth = 128

// Walk calls visit for the directory dir and for each entry below it, a directory before its
// contents. It skips entries that disappear during the walk. If dir does not exist, the error wraps
// fs.ErrNotExist; if it is a link, Walk returns an error.
//
// An error of ctx or of visit ends the walk immediately. Any other error, for example of an
// unreadable directory, does not: Walk visits everything else first. So after an error, visit has
// seen only a part of the tree.
func Walk(ctx context.Context, dir string, visit func(Entry) error) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	w := &walker{ctx: ctx, visit: visit}
	if err := w.directory(root, info, 0); err != nil {
		return err
	}
	return w.first
}

// WalkUnchanged is like Walk: this system does not report changes.
func WalkUnchanged(ctx context.Context, dir string, visit func(Entry) error) error {
	return Walk(ctx, dir, visit)
}

type walker struct {
	ctx   context.Context
	visit func(Entry) error
	// first is the first error that did not end the walk.
	first error
}

// directory visits a directory and everything below it. It closes root.
func (w *walker) directory(root *os.Root, info fs.FileInfo, depth int) error {
	defer root.Close()
	name := info.Name()
	if depth == 0 {
		name = "."
	}
	if err := w.visit(Entry{Name: name, Depth: depth, IsDir: true, Links: 1}); err != nil {
		return err
	}
	if depth >= otherDepth {
		w.note(fmt.Errorf("the tree has more than %d levels", otherDepth))
		return nil
	}
	list, err := root.Open(".")
	if err != nil {
		w.note(err)
		return nil
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(256)
		for _, e := range entries {
			if err := w.one(root, e.Name(), depth+1); err != nil {
				return err
			}
		}
		if err != nil {
			w.note(err)
			return nil
		}
	}
}

func (w *walker) one(parent *os.Root, name string, depth int) error {
	if w.ctx.Err() != nil {
		return context.Cause(w.ctx)
	}
	info, err := parent.Lstat(name)
	if err != nil {
		w.note(err)
		return nil
	}
	if !info.IsDir() {
		return w.visit(Entry{Name: name, Depth: depth, Bytes: uint64(max(info.Size(), 0)), Links: 1})
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		w.note(err)
		return nil
	}
	return w.directory(root, info, depth)
}

func (w *walker) note(err error) {
	if w.first == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, io.EOF) {
		w.first = err
	}
}

// sameMount would report whether a directory below root is on the same mount as root, which is
// unknown on this system.
func sameMount(*os.Root, string) (bool, error) { return false, errors.ErrUnsupported }
