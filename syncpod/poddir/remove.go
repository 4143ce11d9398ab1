package poddir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

// ErrMounted means that a pod's directory was not removed because something is mounted below it. Errors wrap
// it.
var ErrMounted = errors.New("something is mounted there, which is not to be deleted")

// RemovePod removes the directory of a pod that does not run. It succeeds if the directory does not exist. The
// removal of a large directory alternates with those of other pods. After an error, such as one that wraps
// [ErrMounted], or the end of ctx, RemovePod may be called again, and continues.
func (d *Dirs) RemovePod(ctx context.Context, uid types.UID) error {
	dir, err := d.Dir(uid)
	if err != nil {
		return err
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
	if err := d.tearDown(ctx, uid, dir); err != nil {
		return err
	}
	for done := false; !done; {
		if done, err = d.removeSome(ctx, uid, dir); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// tearDown undoes what deleting files does not undo. It does not wait for directory removals, which may take
// long.
func (d *Dirs) tearDown(ctx context.Context, uid types.UID, dir string) error {
	if d.config.Volumes == nil {
		return nil
	}
	release, err := take(ctx, d.tearDowns)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, tearDownTimeout)
	defer cancel()
	return d.config.Volumes.TearDown(ctx, uid, dir)
}

// removeSome deletes the contents of a directory for at most removalTurn, and reports whether all of them are
// deleted. Removals alternate, because a pod may have filled its directory so that others would wait for
// hours.
func (d *Dirs) removeSome(ctx context.Context, uid types.UID, dir string) (done bool, err error) {
	release, err := take(ctx, d.removals)
	if err != nil {
		return false, err
	}
	defer release()
	if err := d.nothingMounted(dir); err != nil {
		return false, err
	}
	turn, cancel := context.WithTimeout(ctx, removalTurn)
	defer cancel()
	err = d.empty(turn, dir)
	switch {
	case err == nil:
		return true, nil
	case turn.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return false, nil
	}
	return false, fmt.Errorf("remove the directory of pod %s: %w", uid, err)
}

// take acquires a slot. Waiting callers get slots ordered by their calls.
func take(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// nothingMounted returns an error if something is mounted below a directory. A container can make the kernel's table of
// mounts too long to be read, for all pods. Deleting a directory's contents would also stop at each mount point, but then
// a part of the directory would be deleted.
func (d *Dirs) nothingMounted(dir string) error {
	points, err := d.mounted(dir)
	if errors.Is(err, mounts.ErrTooLong) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mounts below %s: %w", dir, err)
	}
	if len(points) > 0 {
		return fmt.Errorf("%s is not removed: %s: %w", dir, strings.Join(points, ", "), ErrMounted)
	}
	return nil
}

// Pods returns the UIDs of the pods that have a directory, sorted. It ignores all other files.
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
