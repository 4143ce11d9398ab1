package poddir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
	return (&emptier{root: root}).run(ctx)
}

// emptier deletes all that is in a directory. A directory in it is first moved
// to the top, where no container reaches it: so however deep a container has
// nested them, and whatever it still does, one directory is open at a time, and
// no path leads through one that could become a link meanwhile. A mount point
// cannot be moved, so nothing is deleted through one that came late, either.
type emptier struct {
	root *os.Root
	// moved are the directories at the top that wait for their turn, and made
	// counts the names for them.
	moved []string
	made  int
}

func (e *emptier) run(ctx context.Context) error {
	if _, err := e.discardFrom(ctx, ".", -1); err != nil {
		return err
	}
	for len(e.moved) > 0 {
		last := len(e.moved) - 1
		dir := e.moved[last]
		e.moved = e.moved[:last]
		const batch = 1000
		for more := true; more; {
			var err error
			if more, err = e.discardFrom(ctx, dir, batch); err != nil {
				return err
			}
		}
		if err := e.root.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}

// discardFrom takes the first n entries out of a directory, all if n is -1, and
// reports whether there were any.
func (e *emptier) discardFrom(ctx context.Context, dir string, n int) (bool, error) {
	f, err := e.root.Open(dir)
	if err != nil {
		return false, err
	}
	defer f.Close()
	entries, err := f.ReadDir(n)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := e.discard(path.Join(dir, entry.Name()), entry.IsDir()); err != nil {
			return false, err
		}
	}
	return len(entries) > 0, nil
}

func (e *emptier) discard(name string, isDir bool) error {
	if !isDir {
		return e.root.Remove(name)
	}
	to, err := e.newName()
	if err != nil {
		return err
	}
	if err := e.root.Rename(name, to); err != nil {
		return err
	}
	e.moved = append(e.moved, to)
	return nil
}

// newName returns a name that nothing at the top has: a removal that was cut
// short may have left some.
func (e *emptier) newName() (string, error) {
	for {
		name := ".removed-" + strconv.Itoa(e.made)
		e.made++
		if _, err := e.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}
