package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// how determines how settings are written.
type how struct {
	// pod marks a pod's cgroup, which may use only huge pages that it requests.
	pod bool
	// raise means that no limit may be lowered.
	raise bool
}

// apply creates a cgroup if it does not exist, and writes its settings.
func (t *Tree) apply(ctx context.Context, mount *os.Root, at string, r cgroup.Resources, h how) error {
	if t.upToDate(mount, at, r) {
		return nil
	}
	if err := t.checkMemory(mount, at, r, "inactive_file"); err != nil && !h.raise {
		return err
	}
	delete(t.applied, at) // until all settings are written
	if t.config.Driver == cgroup.Systemd {
		if err := t.config.Slices.SetSlice(ctx, at, r); err != nil {
			return err
		}
		if err := t.writePages(ctx, mount, at, r, h); err != nil {
			return err
		}
		t.applied[at] = r
		return nil
	}
	if err := t.make(ctx, mount, at); err != nil {
		return err
	}
	for _, s := range inOrder(cgroup.Settings(r, t.kernel.version, t.kernel.pages, h.pod), h.raise) {
		if err := t.write(mount, at, s); err != nil {
			return err
		}
	}
	t.applied[at] = r
	return nil
}

// inOrder orders settings so that a pod never requests more than its limits: requests are lowered
// first and raised last (KEP-1287).
func inOrder(settings []cgroup.Setting, raise bool) []cgroup.Setting {
	if raise && len(settings) > 0 && settings[0].Requests() {
		return append(settings[1:len(settings):len(settings)], settings[0])
	}
	return settings
}

// make creates a cgroup in each tree that has settings. The parent exists.
func (t *Tree) make(ctx context.Context, mount *os.Root, at string) error {
	if t.config.Driver == cgroup.Systemd {
		return t.makeSlice(ctx, at)
	}
	for _, tree := range t.treesWithSettings() {
		if err := t.makeIn(mount, tree, at); err != nil {
			return err
		}
	}
	return nil
}

// makeIn creates a cgroup in one tree if it does not exist. Its parent exists.
func (t *Tree) makeIn(mount *os.Root, tree, at string) error {
	if err := t.delegate(mount, path.Join(tree, path.Dir(at))); err != nil {
		return err
	}
	dir := path.Join(tree, at)
	err := mount.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	if t.afterMkdir != nil {
		if err := t.afterMkdir(mount, dir); err != nil {
			return err
		}
	}
	t.config.Log.Info("cgroup made", "cgroup", dir)
	return nil
}

// makeSlice creates a slice for which podsync has no settings.
func (t *Tree) makeSlice(ctx context.Context, at string) error {
	if _, ok := t.applied[at]; ok {
		return nil
	}
	r := cgroup.Resources{}
	if err := t.config.Slices.SetSlice(ctx, at, r); err != nil {
		return err
	}
	t.applied[at] = r
	return nil
}

// settled returns the controllers that have settings.
func settled() []string { return []string{"cpu", "hugetlb", "memory", "pids"} }

// treesWithSettings returns those controllers' trees, each once.
func (t *Tree) treesWithSettings() (trees []string) {
	seen := map[string]bool{}
	for _, c := range settled() {
		if tree := t.kernel.controllers[c]; tree != "" && !seen[tree] {
			seen[tree] = true
			trees = append(trees, tree)
		}
	}
	return trees
}

// delegate enables, with version 2, the controllers for the cgroups below dir.
func (t *Tree) delegate(mount *os.Root, dir string) error {
	if t.kernel.version != cgroup.V2 {
		return nil
	}
	const file = "cgroup.subtree_control"
	text, err := readFile(mount, path.Join(dir, file), maxSetting)
	if err != nil {
		return err
	}
	on := " " + strings.Join(strings.Fields(text), " ") + " "
	for _, c := range settled() {
		if t.kernel.controllers[c] == "" || strings.Contains(on, " "+c+" ") {
			continue
		}
		if err := writeFile(mount, path.Join(dir, file), "+"+c); err != nil {
			return err
		}
	}
	return nil
}

// write writes one setting. Without a limit, the controller may be missing.
func (t *Tree) write(mount *os.Root, at string, s cgroup.Setting) error {
	tree := t.kernel.controllers[s.Controller]
	if tree == "" && s.Unlimited() {
		return nil
	}
	if tree == "" {
		return fmt.Errorf("%s is to be %s, and there is no controller %s", s.File, s.Value, s.Controller)
	}
	err := writeFile(mount, path.Join(tree, at, s.File), s.Value)
	if s.Controller == "memory" && errors.Is(err, syscall.EBUSY) { // version 1 does not kill processes to enforce a limit
		return fmt.Errorf("%w: %w", cgroup.ErrMemoryInUse, err)
	}
	return err
}

// writeFile writes to an existing file.
func writeFile(mount *os.Root, name, value string) error {
	f, err := mount.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("%w (value %q)", err, value)
	}
	return nil
}

// checkMemory rejects a memory limit below the memory in use. Memory that memory.stat lists under the names in
// reclaimable does not count.
func (t *Tree) checkMemory(mount *os.Root, at string, r cgroup.Resources, reclaimable ...string) error {
	if r.Memory == nil || *r.Memory <= 0 {
		return nil
	}
	f, usage, prefix := cgroupFiles{t, mount, at}, "memory.current", ""
	if t.kernel.version == cgroup.V1 {
		usage, prefix = "memory.usage_in_bytes", "total_"
	}
	used, ok := f.number("memory", usage)
	if !ok {
		return nil // the cgroup does not exist yet
	}
	for _, name := range reclaimable {
		used -= f.stat(prefix + name)
	}
	if used > *r.Memory {
		return fmt.Errorf("%w: attempting to set memory limit (%d) below current usage (%d)", cgroup.ErrMemoryInUse, *r.Memory, used)
	}
	return nil
}

// stat returns a value of memory.stat, 0 if it is missing.
func (f cgroupFiles) stat(name string) int64 {
	for line := range strings.Lines(f.text("memory", "memory.stat")) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}
