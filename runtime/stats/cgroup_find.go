package stats

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

const (
	// searchPause is the minimum time between two searches of the tree: a cgroup that was not found
	// may not exist.
	searchPause = 10 * time.Second
	// maxDepth is the depth to which pod cgroups are searched.
	maxDepth = 12
	// maxNames limits one directory's names, and maxSearched those of a whole search: a container may create any
	// number of cgroups.
	maxNames, maxSearched = 4096, 65_536
)

// A finder maps keys to cgroups. A key is the ID of a sandbox or a container, or "pod" followed by
// a pod's UID. Copies share a map that is never modified.
type finder struct {
	known map[string]string // paths below the tree's root
	// absent holds the keys that the last search did not find.
	absent   map[string]bool
	searched time.Time
}

// find searches for the keys that are not known yet, and drops all others.
//
// all are the keys of all pods, at whose containers a search stops.
func (c *finder) find(f *files, h hierarchy, keys, all map[string]bool, now time.Time) {
	known, missing := map[string]string{}, false
	for key := range keys {
		if at, ok := c.known[key]; ok {
			known[key] = at
			continue
		}
		missing = true
	}
	c.known = known
	if !missing || !c.searched.IsZero() && now.Sub(c.searched) < searchPause {
		return
	}
	c.searched = now
	left := maxSearched
	c.search(f, h.memory, "", keys, all, &left, 0)
	c.absent = map[string]bool{}
	for key := range keys {
		c.absent[key] = c.known[key] == ""
	}
}

// search walks down the tree until it has read the number of names in left. It does not descend into containers, which
// may have created their own cgroups.
func (c *finder) search(f *files, root, at string, keys, all map[string]bool, left *int, depth int) {
	entries, err := readDir(f.FS, path.Join(root, at), min(maxNames, *left))
	if err != nil && !isGone(err) {
		f.errs = append(f.errs, err)
	}
	*left -= len(entries)
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := path.Join(at, e.Name())
		key := keyOf(e.Name(), all)
		if keys[key] && c.known[key] == "" {
			c.known[key] = below
		}
		if (key == "" || strings.HasPrefix(key, "pod")) && depth < maxDepth && *left > 0 {
			c.search(f, root, below, keys, all, left, depth+1)
		}
	}
}

// readDir returns at most max entries in a directory.
func readDir(in fs.FS, dir string, max int) ([]fs.DirEntry, error) {
	f, err := in.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, ok := f.(fs.ReadDirFile)
	if !ok {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: errors.ErrUnsupported}
	}
	entries, err := list.ReadDir(max)
	if errors.Is(err, io.EOF) {
		err = nil // the directory is empty
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// keyOf returns the key that a cgroup belongs to, or "". Runtimes and systemd may add a prefix to
// the ID, such as "cri-containerd-" or "kubepods-burstable-", and a suffix; in a slice's name,
// underscores replace the dashes of a UID.
func keyOf(name string, keys map[string]bool) string {
	bare := strings.TrimSuffix(strings.TrimSuffix(name, ".scope"), ".slice")
	last := bare[strings.LastIndexByte(bare, '-')+1:]
	for _, key := range []string{name, last, strings.ReplaceAll(last, "_", "-")} {
		if keys[key] && !strings.Contains(name, "conmon-") { // conmon watches the container and has a cgroup next to it
			return key
		}
	}
	return ""
}
