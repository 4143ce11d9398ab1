package volume

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

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
	points, err := mounts.Below(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range points {
		if ours(dir, point) {
			errs = append(errs, unmount(point))
		}
	}
	return errors.Join(errs...)
}

// ours reports whether we are who mounts at that place in a pod's directory: a
// volume in memory, or what a subPath leads to.
func ours(dir, point string) bool {
	below, err := filepath.Rel(dir, point)
	if err != nil {
		return false
	}
	at := filepath.Dir(below)
	if filepath.Dir(filepath.Dir(at)) == subPathsDir {
		return true
	}
	plugins := []string{emptyDirPlugin, secretPlugin, projectedPlugin}
	return filepath.Dir(at) == "volumes" && slices.Contains(plugins, filepath.Base(at))
}
