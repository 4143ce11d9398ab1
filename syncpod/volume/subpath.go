package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/mounts"
	"github.com/podsync/podsync/internal/safepath"
)

const subPathsDir = "volume-subpaths"

// pinPath is where what a subPath leads to is mounted, as a kubelet has it.
type pinPath struct {
	dir, volume, container string
	index                  int
}

func (p pinPath) path() (string, error) {
	err := errors.Join(safepath.Element("volume name", p.volume), safepath.Element("container name", p.container))
	return filepath.Join(p.dir, subPathsDir, p.volume, p.container, strconv.Itoa(p.index)), err
}

// subPath returns the path on the node of what is at a path in a volume, which
// symbolic links do not lead out of. A directory is made if nothing is there.
func (v *Volumes) subPath(volume, below string, at pinPath) (string, error) {
	if err := safepath.Relative("subPath", below); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(volume)
	if err != nil {
		return "", fmt.Errorf("subPath %q: %w", below, err)
	}
	defer root.Close()
	if err := makeSubPath(root, below); err != nil {
		return "", fmt.Errorf("subPath %q: %w", below, err)
	}
	if v.config.Unprivileged {
		return filepath.EvalSymlinks(filepath.Join(volume, filepath.FromSlash(below)))
	}
	target, err := at.path()
	if err != nil {
		return "", err
	}
	if err := pin(root, below, target); err != nil {
		return "", fmt.Errorf("subPath %q: %w", below, err)
	}
	return target, nil
}

// makeSubPath makes a directory like the volume's own if nothing is there.
func makeSubPath(root *os.Root, below string) error {
	_, err := root.Stat(below)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := makeDirsIn(root, filepath.ToSlash(filepath.Clean(below)), info.Mode().Perm()); err != nil {
		return err
	}
	_, err = root.Stat(below)
	return err
}

// TearDown unmounts what SetUp and Mounts have mounted below the pod's directory
// dir. What others have mounted there stays.
func (v *Volumes) TearDown(_ context.Context, _ types.UID, dir string) error {
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
