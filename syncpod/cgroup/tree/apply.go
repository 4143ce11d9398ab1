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

	"github.com/podsync/podsync/syncpod/cgroup"
)

// ErrMemoryInUse is the error of a memory limit that is below what is in use: the
// kernel would kill to keep it.
var ErrMemoryInUse = errors.New("the memory limit is below what is in use")

// apply makes a cgroup, if it is not there, and writes its settings. pod is whether it
// is that of a pod, which has no huge pages but those it asks for.
func (t *Tree) apply(ctx context.Context, mount *os.Root, at string, r cgroup.Resources, pod bool) error {
	if t.upToDate(mount, at, r) {
		return nil
	}
	if err := t.checkMemory(mount, at, r); err != nil {
		return err
	}
	delete(t.applied, at) // until all of it is written
	if t.config.Driver == cgroup.Systemd {
		if err := t.config.Slices.SetSlice(ctx, at, r); err != nil {
			return err
		}
		t.applied[at] = r
		return nil
	}
	if err := t.make(ctx, mount, at); err != nil {
		return err
	}
	for _, s := range r.Settings(t.kernel.version, t.kernel.pages, pod) {
		if err := t.write(mount, at, s); err != nil {
			return err
		}
	}
	t.applied[at] = r
	return nil
}

// make makes a cgroup in each tree that has settings. The one above it is there.
func (t *Tree) make(ctx context.Context, mount *os.Root, at string) error {
	if t.config.Driver == cgroup.Systemd {
		return t.makeSlice(ctx, at)
	}
	for _, tree := range t.treesWithSettings() {
		if err := t.delegate(mount, path.Join(tree, path.Dir(at))); err != nil {
			return err
		}
		dir := path.Join(tree, at)
		err := mount.Mkdir(dir, 0o755)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return err
		}
		if t.afterMkdir != nil {
			if err := t.afterMkdir(mount, dir); err != nil {
				return err
			}
		}
		t.config.Log.Info("cgroup made", "cgroup", dir)
	}
	return nil
}

// makeSlice makes a slice that has no settings of ours.
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

// settled are the controllers that have settings.
func settled() []string { return []string{"cpu", "hugetlb", "memory", "pids"} }

// treesWithSettings are the trees of those controllers, each once.
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

// delegate turns on, with version 2, the controllers that cgroups below dir are to have.
func (t *Tree) delegate(mount *os.Root, dir string) error {
	if t.kernel.version != cgroup.V2 {
		return nil
	}
	const file = "cgroup.subtree_control"
	text, err := mount.ReadFile(path.Join(dir, file))
	if err != nil {
		return err
	}
	on := " " + strings.Join(strings.Fields(string(text)), " ") + " "
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

// write writes one setting. What sets no limit needs no controller.
func (t *Tree) write(mount *os.Root, at string, s cgroup.Setting) error {
	tree := t.kernel.controllers[s.Controller]
	if tree == "" && s.Unlimited() {
		return nil
	}
	if tree == "" {
		return fmt.Errorf("%s is to be %s, and there is no controller %s", s.File, s.Value, s.Controller)
	}
	return writeFile(mount, path.Join(tree, at, s.File), s.Value)
}

// writeFile writes to a file that is there.
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

// checkMemory refuses a memory limit that is below what is in use.
func (t *Tree) checkMemory(mount *os.Root, at string, r cgroup.Resources) error {
	if r.Memory == nil || *r.Memory <= 0 {
		return nil
	}
	file := "memory.current"
	if t.kernel.version == cgroup.V1 {
		file = "memory.usage_in_bytes"
	}
	text, err := mount.ReadFile(path.Join(t.kernel.controllers["memory"], at, file))
	if err != nil {
		return nil // it is yet to be made
	}
	used, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err == nil && used > *r.Memory {
		return fmt.Errorf("%w: %d of %d bytes", ErrMemoryInUse, used, *r.Memory)
	}
	return nil
}
