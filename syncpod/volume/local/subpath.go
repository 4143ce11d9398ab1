package local

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/runtime/hostfs/mounts"
)

const subPathsDir = "volume-subpaths"

// pinPath is where a subPath's target is mounted, as in a kubelet.
type pinPath struct {
	dir, volume, container string
	index                  int
	// updated means that the volume's files are replaced while containers have it mounted.
	updated bool
}

func (p pinPath) path() (string, error) {
	err := errors.Join(hostfs.Element("volume name", p.volume), hostfs.Element("container name", p.container))
	return filepath.Join(p.dir, subPathsDir, p.volume, p.container, strconv.Itoa(p.index)), err
}

// pins are the paths at which subPaths are mounted for one container's start. If a container can write to such a
// directory, it can rename it, and the new path, however long, is in the mount table that every process on the node
// reads; runc starts no container if a line has 64 KiB. So a writable directory's pin ends with the start.
type pins []string

// release unmounts the pins. A start that happens later nevertheless fails, because the paths no longer
// exist.
func (p pins) release() error {
	var errs []error
	for _, place := range p {
		errs = append(errs, unpin(place))
	}
	return errors.Join(errs...)
}

// unpin unmounts a place if it is a mount point, and removes the place.
func unpin(place string) error {
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := unmountAll(place, unmountPin); err != nil {
		return err
	}
	return os.Remove(place)
}

// unmountPin unmounts a pin. The directory is also mounted elsewhere: mounts in it, by the host or by
// containers with mountPropagation, would be unmounted there, too, unless they are isolated first.
func unmountPin(place string) error {
	if err := isolate(place); err != nil {
		return err
	}
	return mounts.Detach(place)
}

// subPath returns the path on a path's node in a volume. Symbolic links cannot leave the volume. A
// missing directory is created. If the pin ends with the start, subPath adds it to kept.
func (v *Volumes) subPath(volume, below string, at pinPath, kept *pins) (string, error) {
	root, err := os.OpenRoot(volume + onlyDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	if err := makeSubPath(root, below); err != nil {
		return "", err
	}
	target, err := at.path()
	if err != nil {
		return "", err
	}
	if v.config.Unprivileged {
		path, err := filepath.EvalSymlinks(filepath.Join(volume, filepath.FromSlash(below)))
		if err == nil && at.updated {
			err = link(path, target)
		}
		return path, err
	}
	if !at.updated {
		*kept = append(*kept, target)
	}
	return target, pin(root, below, target)
}

// link records the mounted path in a link, where there is no mount.
func link(path, at string) error {
	if err := os.MkdirAll(filepath.Dir(at), 0o750); err != nil {
		return err
	}
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(path, at)
}

// isPinned reports whether dir, or a directory below it, is mounted into a container by a subPath,
// whose pins, mounts or links, are below pins: the container would lose its files. A mounted file
// needs no name, and does not count.
func isPinned(root *os.Root, dir, pins string) bool {
	var pinned []fs.FileInfo
	places, _ := fs.Glob(os.DirFS(pins), "*/*") // the pattern is valid
	for _, place := range places {
		if info, err := os.Stat(filepath.Join(pins, filepath.FromSlash(place))); err == nil && info.IsDir() {
			pinned = append(pinned, info)
		}
	}
	if len(pinned) == 0 {
		return false
	}
	found := false
	_ = fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error { // a missing file is not pinned
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		found = found || err == nil && slices.ContainsFunc(pinned, func(p fs.FileInfo) bool { return os.SameFile(p, info) })
		return err
	})
	return found
}

// makeSubPath creates a directory with the volume's mode and owners if nothing exists at the path.
func makeSubPath(root *os.Root, below string) error {
	_, err := root.Stat(below)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := makeDirsIn(root, filepath.ToSlash(filepath.Clean(below)), info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)); err != nil {
		return err
	}
	_, err = root.Stat(below)
	return err
}

// makeDirsIn creates a directory and its missing parents, each with that mode.
func makeDirsIn(root *os.Root, name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	if err := makeDirsIn(root, path.Dir(name), mode); err != nil {
		return err
	}
	if info, err := root.Stat(name); err == nil && info.IsDir() {
		return nil // a link may lead to it
	}
	parent, err := root.OpenRoot(path.Dir(name) + onlyDir)
	if err != nil {
		return err
	}
	defer parent.Close()
	made, err := makeDirIn(parent, path.Base(name), mode)
	if err != nil {
		return err
	}
	return made.Close()
}
