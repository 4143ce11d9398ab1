package volume

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/mounts"
)

// TearDown unmounts what SetUp and Mounts have mounted below the pod's directory
// dir. What others have mounted there stays.
func (v *Volumes) TearDown(_ context.Context, _ types.UID, dir string) error {
	v.fixed.forget(dir)
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, places := range ours {
		errs = append(errs, unmountEach(dir, places, places[0] == subPathsDir))
	}
	return errors.Join(errs...)
}

// ours are the places below a pod's directory where Volumes mounts, as elements of paths, of which "*" is
// every name: what subPaths lead to, and volumes in memory. Only the agent makes names there.
var ours = [][]string{
	{subPathsDir, "*", "*", "*"},
	{"volumes", emptyDirPlugin, "*"},
	{"volumes", secretPlugin, "*"},
	{"volumes", projectedPlugin, "*"},
}

// unmountEach unmounts what is mounted at those places below dir. It visits them: the table of
// mounts has paths that containers choose.
func unmountEach(dir string, places []string, pinned bool) error {
	if len(places) == 0 {
		return unmountAll(dir, pinned)
	}
	if places[0] != "*" {
		return unmountEach(filepath.Join(dir, places[0]), places[1:], pinned)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, entry := range entries {
		if len(places) > 1 && !entry.IsDir() {
			continue
		}
		errs = append(errs, unmountEach(filepath.Join(dir, entry.Name()), places[1:], pinned))
	}
	return errors.Join(errs...)
}

// unmountAll unmounts what is mounted at a place, once for each time that something was mounted there. What
// a subPath leads to is also mounted elsewhere: mounts in it, by the host or by containers with
// mountPropagation, are isolated first, because they would be unmounted there, too.
func unmountAll(point string, pinned bool) error {
	for {
		at, err := mounts.At(point)
		if err != nil || !at {
			return err
		}
		if pinned {
			if err := isolate(point); err != nil {
				return err
			}
		}
		if err := unmount(point); err != nil {
			return err
		}
	}
}
