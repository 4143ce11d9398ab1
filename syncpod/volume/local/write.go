package local

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podsync/podsync/runtime/hostfs"
)

const (
	// filesDirMode is the mode for file directories, which any user may read.
	filesDirMode = 0o755
	// dataLink leads to the version that counts. Programs that watch their files
	// for updates watch for it.
	dataLink = "..data"
	// nextLink is the link to a new version, before it is renamed to dataLink.
	nextLink = "..data_tmp"
)

// write creates the volume's directory and writes the files into it.
func (c *content) write() error {
	top := directory{c.path, c.owners.dir(filesDirMode)}
	err := top.make()
	if c.secret && !c.config.Unprivileged {
		err = top.makeInMemory(memory{})
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(c.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := give(root, ".", top.access); err != nil {
		return err
	}
	return c.publish(root)
}

// publish makes the files visible atomically. After an interruption it can be called again.
func (c *content) publish(root *os.Root) error {
	version, err := root.Readlink(dataLink)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if version == "" || !c.isIn(root, version) {
		version = following(version)
		if err := c.writeVersion(root, version); err != nil {
			return err
		}
		if err := replaceLink(root, version); err != nil {
			return err
		}
	} else if err := c.stamp(root, version); err != nil {
		return err
	}
	if err := showAll(root, c.files); err != nil {
		return err
	}
	return c.prune(root, version)
}

// isIn reports whether a version has these files and no others.
func (c *content) isIn(root *os.Root, version string) bool {
	found := 0
	err := fs.WalkDir(root.FS(), version, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		want, ok := c.files[strings.TrimPrefix(name, version+"/")]
		if !ok {
			return fs.ErrInvalid
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := hostfs.Read(root, name, int64(len(want.data)))
		if err != nil || !bytes.Equal(data, want.data) || !c.owners.file(want).isOf(info) {
			return fs.ErrInvalid
		}
		found++
		return nil
	})
	return err == nil && found == len(c.files)
}

// following returns the next version's name.
func following(version string) string {
	n, err := strconv.ParseUint(strings.TrimPrefix(version, ".."), 10, 64)
	if err != nil {
		n = 0 // there was no version, or another program created it
	}
	return ".." + strconv.FormatUint(n+1, 10)
}

func (c *content) writeVersion(root *os.Root, version string) error {
	if err := root.RemoveAll(version); err != nil { // an interrupted update has created it
		return err
	}
	if err := c.makeDirs(root, version); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		to := path.Join(version, name)
		if err := c.makeDirs(root, path.Dir(to)); err != nil {
			return err
		}
		f := c.files[name]
		if err := writeNew(root, to, f.data, c.owners.file(f)); err != nil {
			return err
		}
	}
	return c.stamp(root, version)
}

// writeNew creates a file with that access.
func writeNew(root *os.Root, name string, data []byte, a access) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = a.giveTo(file)
	}
	return errors.Join(err, file.Close())
}

// makeDirs creates a directory for files, and its missing parents.
func (c *content) makeDirs(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	if err := c.makeDirs(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Mkdir(name, filesDirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return give(root, name, c.owners.dir(filesDirMode))
}

// stamp sets each token file's modification time to when it was received, which determines its
// renewal. In a new version it does so before containers can see it: a token that looks younger
// than it is would be renewed too late.
func (c *content) stamp(root *os.Root, version string) error {
	for name, f := range c.files {
		if f.got.IsZero() {
			continue
		}
		if err := root.Chtimes(path.Join(version, name), f.got, f.got); err != nil {
			return err
		}
	}
	return nil
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

// shown returns the entries at the volume's top: files, and directories with files.
func shown(files map[string]file) []string {
	var names []string
	for name := range files {
		first, _, _ := strings.Cut(name, "/")
		names = append(names, first)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// showAll creates the links through which containers see the files.
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

// prune removes links to removed files, and other versions, except those with a directory that a
// container has mounted.
func (c *content) prune(root *os.Root, version string) error {
	top, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	seen := shown(c.files)
	for _, entry := range top {
		name := entry.Name()
		ours := strings.HasPrefix(name, "..") || entry.Type() == fs.ModeSymlink
		if !ours || name == dataLink || name == version || slices.Contains(seen, name) {
			continue
		}
		if entry.IsDir() && isPinned(root, name, filepath.Join(c.dir, subPathsDir, filepath.Base(c.path))) {
			continue
		}
		if err := root.RemoveAll(name); err != nil {
			return err
		}
	}
	return nil
}
