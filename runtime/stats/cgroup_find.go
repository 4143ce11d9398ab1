package stats

import (
	"io/fs"
	"path"
	"strings"
	"time"
)

const (
	// searchPause is the least time between two searches of the tree: what is not found
	// may not be there at all.
	searchPause = 10 * time.Second
	// maxDepth is how far down a cgroup of a pod is looked for.
	maxDepth = 12
)

// A finder knows which cgroup is whose. Keys are the IDs of sandboxes and containers,
// and "pod" with the UID of a pod. A copy of it shares a map that is not written to
// again.
type finder struct {
	known map[string]string // paths below the root of the tree
	// absent are those that the last search did not find.
	absent   map[string]bool
	searched time.Time
}

// find looks for those that are not known yet, and forgets all others.
func (c *finder) find(f *files, h hierarchy, keys map[string]bool, now time.Time) {
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
	c.search(f, h.memory, "", keys, 0)
	c.absent = map[string]bool{}
	for key := range keys {
		c.absent[key] = c.known[key] == ""
	}
}

// search goes down the tree, but not into containers, which may have cgroups of their
// own.
func (c *finder) search(f *files, root, at string, keys map[string]bool, depth int) {
	entries, err := fs.ReadDir(f.FS, path.Join(root, at))
	if err != nil && !isGone(err) {
		f.errs = append(f.errs, err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		below := path.Join(at, e.Name())
		key := keyOf(e.Name(), keys)
		if key != "" && c.known[key] == "" {
			c.known[key] = below
		}
		if (key == "" || strings.HasPrefix(key, "pod")) && depth < maxDepth {
			c.search(f, root, below, keys, depth+1)
		}
	}
}

// keyOf returns whose cgroup this is, by what runtimes and systemd make of an ID: it
// may have a prefix such as "cri-containerd-" or "kubepods-burstable-", and an ending;
// and in a slice dashes of a UID are underscores.
func keyOf(name string, keys map[string]bool) string {
	bare := strings.TrimSuffix(strings.TrimSuffix(name, ".scope"), ".slice")
	last := bare[strings.LastIndexByte(bare, '-')+1:]
	for _, key := range []string{name, last, strings.ReplaceAll(last, "_", "-")} {
		if keys[key] && !strings.Contains(name, "conmon-") { // which watches the container, beside it
			return key
		}
	}
	return ""
}
