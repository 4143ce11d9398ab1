package syncpod

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/hostfs"
)

// podLogs removes the logs of pods, and the links to them. The name of each directory ends with the UID of its pod, so the
// removal of a pod needs neither its definition nor a pass that has seen the pod.
type podLogs struct{ root, links string }

// RemovePod removes the directory of a pod's logs and the links that lead into it. It may be called again.
func (l podLogs) RemovePod(_ context.Context, uid types.UID) error {
	if err := hostfs.Element("metadata.uid", string(uid)); err != nil {
		return nil // the pod got no directory
	}
	return errors.Join(l.removeLinks(uid), l.removeDirectories(uid))
}

// removeDirectories removes the directories of a pod. There is one, unless a source has renamed the pod.
func (l podLogs) removeDirectories(uid types.UID) error {
	return each(l.root, func(root *os.Root, name string) error {
		if !isOfPod(name, uid) {
			return nil
		}
		return root.RemoveAll(name)
	})
}

// removeLinks removes the links to the logs of a pod.
func (l podLogs) removeLinks(uid types.UID) error {
	if l.links == "" {
		return nil
	}
	return each(l.links, func(links *os.Root, name string) error {
		to, err := links.Readlink(name)
		if err != nil { // it is no link, or is gone
			return nil
		}
		rest, ok := strings.CutPrefix(to, strings.TrimSuffix(l.root, "/")+"/")
		if dir, _, _ := strings.Cut(rest, "/"); !ok || !isOfPod(dir, uid) {
			return nil
		}
		return links.Remove(name)
	})
}

// isOfPod reports whether a directory has the name <namespace>_<name>_<UID> of a pod's logs. A UID may contain an underscore;
// the names of objects do not.
func isOfPod(dir string, uid types.UID) bool {
	name, ok := strings.CutSuffix(dir, "_"+string(uid))
	return ok && strings.Count(name, "_") == 1
}

// each calls do for each name in a directory, and joins the errors. A directory or a file that does not exist is no error.
func each(dir string, do func(root *os.Root, name string) error) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("logs: %w", err)
	}
	defer root.Close()
	names, err := hostfs.Names(root, ".")
	errs := []error{err}
	for _, name := range names {
		if err := do(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("logs %s: %w", filepath.Join(dir, name), err))
		}
	}
	return errors.Join(errs...)
}
