package volume

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	// filesDirMode is that of the directories of files, which any user may read.
	filesDirMode = 0o755
	// dataLink leads to the version that counts. Programs that watch their files
	// for updates watch for it.
	dataLink = "..data"
	// nextLink takes its place.
	nextLink = "..data_tmp"
)

// write makes the volume's directory and puts the files into it.
func (v *Volumes) write(path string, c *content) error {
	err := makeDir(path, filesDirMode)
	if c.secret && !v.config.Unprivileged {
		err = inMemory(path, filesDirMode, 0)
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	return publish(root, c.files)
}

// publish makes the files those that are seen, all at once. Cut short at any
// point, it can be called again.
func publish(root *os.Root, files map[string]file) error {
	version, err := root.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if version == "" || !holds(root, version, files) {
		version = following(version)
		if err := writeVersion(root, version, files); err != nil {
			return err
		}
		if err := replaceLink(root, version); err != nil {
			return err
		}
	}
	if err := showAll(root, files); err != nil {
		return err
	}
	return prune(root, version, files)
}

// holds reports whether a version has these files and no others.
func holds(root *os.Root, version string, files map[string]file) bool {
	found := 0
	err := fs.WalkDir(root.FS(), version, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, ok := files[strings.TrimPrefix(name, version+"/")]
		if !ok {
			return fs.ErrInvalid
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := root.ReadFile(name)
		if err != nil || !bytes.Equal(data, want.data) || info.Mode() != fs.FileMode(want.mode) {
			return fs.ErrInvalid
		}
		found++
		return nil
	})
	return err == nil && found == len(files)
}

// following returns the name of the version after one.
func following(version string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(version, ".."), 10, 64)
	if err != nil {
		n = 0 // there was none, or it was not ours
	}
	return ".." + strconv.FormatUint(n+1, 10)
}

func writeVersion(root *os.Root, version string, files map[string]file) error {
	if err := root.RemoveAll(version); err != nil { // what was cut short
		return err
	}
	if err := makeDirIn(root, version, filesDirMode); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := makeDirsIn(root, path.Join(version, path.Dir(name)), filesDirMode); err != nil {
			return err
		}
		f := files[name]
		to := path.Join(version, name)
		if err := root.WriteFile(to, f.data, 0o600); err != nil {
			return err
		}
		if err := root.Chmod(to, fs.FileMode(f.mode)); err != nil {
			return err
		}
	}
	return nil
}

// makeDirsIn makes a directory and those above it, each with that mode.
func makeDirsIn(root *os.Root, name string, mode fs.FileMode) error {
	if name == "." {
		return nil
	}
	if err := makeDirsIn(root, path.Dir(name), mode); err != nil {
		return err
	}
	return makeDirIn(root, name, mode)
}

// makeDirIn makes a directory with that mode, whatever the process's umask,
// unless there is something of that name.
func makeDirIn(root *os.Root, name string, mode fs.FileMode) error {
	err := root.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return root.Chmod(name, mode)
}

func replaceLink(root *os.Root, version string) error {
	if err := root.Remove(nextLink); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := root.Symlink(version, nextLink); err != nil {
		return err
	}
	return root.Rename(nextLink, dataLink)
}

// shown returns what stands at the top of the volume: files, and the directories
// that files are in.
func shown(files map[string]file) []string {
	var names []string
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		names = append(names, first)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// showAll makes the links by which containers see the files.
func showAll(root *os.Root, files map[string]file) error {
	for _, name := range shown(files) {
		to := path.Join(dataLink, name)
		if at, err := root.Readlink(name); err == nil && at == to {
			continue
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.Symlink(to, name); err != nil {
			return err
		}
	}
	return nil
}

// prune removes the other versions, and links to files that are no more.
func prune(root *os.Root, version string, files map[string]file) error {
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	seen := shown(files)
	for _, entry := range top {
		name := entry.Name()
		ours := strings.HasPrefix(name, "..") || entry.Type() == fs.ModeSymlink
		if !ours || name == dataLink || name == version || slices.Contains(seen, name) {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
