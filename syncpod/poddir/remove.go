package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/filetree"
	"github.com/podsync/podsync/internal/base/mounts"
)

// ErrMounted is what an error wraps if a pod's directory is not removed because
// something is mounted below it.
var ErrMounted = errors.New("something is mounted there, which is not to be deleted")

// CleanPod removes the directory of a pod that has stopped for good. See
// [Dirs.RemovePod].
func (d *Dirs) CleanPod(ctx context.Context, pod *v1.Pod) error {
	if pod == nil {
		return errors.New("pod directory: the pod is nil")
	}
	return d.RemovePod(ctx, pod.UID)
}

// RemovePod removes the directory of a pod of which nothing runs. That there is
// none is no error. After an error, such as one that wraps [ErrMounted], it may be
// called again.
func (d *Dirs) RemovePod(ctx context.Context, uid types.UID) error {
	dir, err := d.Dir(uid)
	if err != nil {
		return err
	}
	select {
	case d.removals <- struct{}{}:
		defer func() { <-d.removals }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory", dir)
	}
	if d.config.Volumes != nil {
		if err := d.config.Volumes.TearDown(ctx, uid, dir); err != nil {
			return err
		}
	}
	if err := nothingMounted(dir); err != nil {
		return err
	}
	if err := empty(ctx, dir); err != nil {
		return fmt.Errorf("remove the directory of pod %s: %w", uid, err)
	}
	return os.Remove(dir)
}

func nothingMounted(dir string) error {
	points, err := mounts.Below(dir)
	if err != nil {
		return fmt.Errorf("what is mounted below %s: %w", dir, err)
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is not removed: %s: %w", dir, strings.Join(points, ", "), ErrMounted)
	}
	return nil
}

// Pods returns the UIDs of the pods that have a directory, sorted. What else may
// lie there is passed over.
func (d *Dirs) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(d.pods)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var uids []types.UID
	for _, e := range entries {
		if e.IsDir() {
			uids = append(uids, types.UID(e.Name()))
		}
	}
	slices.Sort(uids)
	return uids, nil
}

// empty deletes all that is in a directory.
func empty(ctx context.Context, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return filetree.Empty(ctx, root)
}
