package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs/mounts"
	"github.com/podsync/podsync/syncpod/volume"
)

// TearDown unmounts all mounts from SetUp and Mounts below the pod's directory dir. It keeps other
// components' mounts. It returns an error if a volume that Volumes does not create still contains a file
// because its plugin has left it or is missing: the caller must then not remove dir.
func (v *Volumes) TearDown(ctx context.Context, uid types.UID, dir string) error {
	v.fixed.forget(dir)
	dir, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	errs := []error{unmountEach(dir, []string{subPathsDir, anyName, anyName, anyName}, unmountPin)}
	for _, kind := range []volume.Kind{volume.KindEmptyDir, volume.KindSecret, volume.KindProjected} {
		errs = append(errs, unmountEach(dir, []string{"volumes", kind.Directory(), anyName}, mounts.Detach)) // if it is in memory
	}
	if err := errors.Join(errs...); err != nil {
		return err // a subPath that is still mounted uses its volume
	}
	if v.config.Plugin != nil {
		if err := v.config.Plugin.TearDown(ctx, uid, dir); err != nil {
			return err
		}
	}
	return keepForeign(dir)
}

// anyName stands for every name in a directory.
const anyName = "*"

// unmountEach unmounts the places below dir with those elements, where only the agent creates
// names. It visits them and does not read the mount table, whose paths containers can choose.
func unmountEach(dir string, places []string, unmountOne func(place string) error) error {
	if len(places) == 0 {
		return unmountAll(dir, unmountOne)
	}
	if places[0] != anyName {
		return unmountEach(filepath.Join(dir, places[0]), places[1:], unmountOne)
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
		errs = append(errs, unmountEach(filepath.Join(dir, entry.Name()), places[1:], unmountOne))
	}
	return errors.Join(errs...)
}

// unmountAll unmounts all mounts stacked at a place.
func unmountAll(place string, unmountOne func(place string) error) error {
	for {
		at, err := mounts.At(place)
		if err != nil || !at {
			return err
		}
		if err := unmountOne(place); err != nil {
			return err
		}
	}
}
