package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podsync/podsync/syncpod/cgroup"
)

// killPause is how long is waited before what was killed is looked for again.
const killPause = 10 * time.Millisecond

// remove kills what runs in a cgroup, and removes it with all below it. One that is not
// there has been removed.
func (t *Tree) remove(ctx context.Context, mount *os.Root, at string) error {
	t.mu.Lock()
	delete(t.applied, at)
	t.mu.Unlock()
	if !t.exists(mount, at) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.config.KillTimeout)
	defer cancel()
	if err := t.killAll(ctx, mount, at); err != nil {
		return err
	}
	if t.config.Driver == cgroup.Systemd {
		if err := t.config.Slices.RemoveSlice(ctx, at); err != nil {
			return err
		}
	}
	for _, tree := range t.kernel.trees {
		if err := t.removeAll(ctx, mount, path.Join(tree, at)); err != nil {
			return err
		}
	}
	t.config.Log.Info("cgroup removed", "cgroup", at)
	return nil
}

// killAll kills until nothing runs in a cgroup and those below it.
func (t *Tree) killAll(ctx context.Context, mount *os.Root, at string) error {
	for {
		left, err := t.killOnce(mount, at)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-time.After(killPause):
		case <-ctx.Done():
			return fmt.Errorf("%d processes run on after SIGKILL: %w", left, context.Cause(ctx))
		}
	}
}

// killOnce kills all that runs, and returns how many processes there were.
func (t *Tree) killOnce(mount *os.Root, at string) (found int, err error) {
	for _, tree := range t.kernel.trees {
		dirs, err := below(mount, path.Join(tree, at))
		if err != nil {
			return found, err
		}
		for _, dir := range dirs {
			n, err := killIn(mount, dir)
			found += n
			if err != nil {
				return found, err
			}
		}
	}
	if found > 0 && t.kernel.version == cgroup.V2 {
		// Older kernels cannot kill what is forked meanwhile.
		err = ignoreNotExist(writeFile(mount, strings.TrimPrefix(path.Join(at, "cgroup.kill"), "/"), "1"))
	}
	return found, err
}

// below returns a directory and all directories in it, the deepest first. There are none
// if it does not exist. A link is none.
func below(mount *os.Root, dir string) (dirs []string, err error) {
	err = fs.WalkDir(mount.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err == nil && e.IsDir() {
			dirs = append(dirs, name)
		}
		return err
	})
	slices.Reverse(dirs)
	return dirs, err
}

// killIn kills the processes of one cgroup.
func killIn(mount *os.Root, dir string) (found int, err error) {
	list, err := processes(mount, dir)
	if err != nil {
		return 0, err
	}
	for _, pid := range list {
		if err := killOne(mount, dir, pid); err != nil {
			return len(list), err
		}
	}
	return len(list), nil
}

func processes(mount *os.Root, dir string) (list []int, err error) {
	text, err := mount.ReadFile(path.Join(dir, procs))
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", procs, dir, err)
		}
		list = append(list, pid)
	}
	return list, nil
}

// killOne kills a process that is in a cgroup. It holds on to the process before it looks
// again whether it is there: its number may be another one's by then.
func killOne(mount *os.Root, dir string, pid int) error {
	if pid <= 1 || pid == os.Getpid() {
		return fmt.Errorf("process %d in %s is not to be killed: it is the agent, the first one, or of another PID namespace", pid, dir)
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer func() { _ = p.Release() }()
	if again, err := processes(mount, dir); err != nil || !slices.Contains(again, pid) {
		return err
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	return nil
}

// removeAll removes the directories of a cgroup. The kernel may hold one a little longer
// than its processes.
func (t *Tree) removeAll(ctx context.Context, mount *os.Root, dir string) error {
	for {
		err := t.removeOnce(mount, dir)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(killPause):
		case <-ctx.Done():
			return err
		}
	}
}

func (t *Tree) removeOnce(mount *os.Root, dir string) error {
	dirs, err := below(mount, dir)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if t.beforeRemove != nil {
			if err := t.beforeRemove(mount, d); err != nil {
				return err
			}
		}
		if err := mount.Remove(d); ignoreNotExist(err) != nil {
			return err
		}
	}
	return nil
}
