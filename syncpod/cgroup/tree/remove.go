package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/podsync/podsync/internal/filetree"
	"github.com/podsync/podsync/syncpod/cgroup"
)

// killPause is the interval of checks whether killed processes have exited.
const killPause = 10 * time.Millisecond

// remove kills the processes in a cgroup, and removes it with all cgroups below it. It does nothing
// if the cgroup does not exist.
func (t *Tree) remove(ctx context.Context, mount *os.Root, at string) error {
	t.mu.Lock()
	delete(t.applied, at)
	t.mu.Unlock()
	if !t.exists(mount, at) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.config.killTimeout)
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

// killAll kills processes until none runs in a cgroup and the cgroups below it.
func (t *Tree) killAll(ctx context.Context, mount *os.Root, at string) error {
	for {
		left, err := t.killOnce(ctx, mount, at)
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

// killOnce kills all processes, and returns how many there were.
func (t *Tree) killOnce(ctx context.Context, mount *os.Root, at string) (found int, err error) {
	found, err = t.inEach(ctx, mount, at, mayBeKilled)
	if err != nil || found == 0 {
		return found, err
	}
	if t.kernel.version == cgroup.V2 { // older kernels do not have this file
		kill := strings.TrimPrefix(path.Join(at, "cgroup.kill"), "/")
		if err := ignoreNotExist(writeFile(mount, kill, "1")); err != nil {
			return found, err
		}
	}
	_, err = t.inEach(ctx, mount, at, func(above *os.Root, dir string) (int, error) { return killIn(ctx, above, dir) })
	return found, err
}

// inEach calls do for a cgroup and the cgroups below it, in all trees, and returns the sum.
func (t *Tree) inEach(ctx context.Context, mount *os.Root, at string, do func(above *os.Root, dir string) (int, error)) (sum int, err error) {
	for _, tree := range t.kernel.trees {
		if err := each(ctx, mount, path.Join(tree, at), func(above *os.Root, dir string) error {
			n, err := do(above, dir)
			sum += n
			return err
		}); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// each calls do for a directory and all directories in it, the deepest first, with the directory
// above it and the path from there. It does nothing if dir does not exist, and ignores links.
// Containers may have created the directories: paths stay short, and memory grows only with the
// depth. do may remove the directory.
func each(ctx context.Context, mount *os.Root, dir string, do func(above *os.Root, name string) error) error {
	d := &descent{mount: mount, dir: dir, do: do}
	err := filetree.Walk(ctx, filepath.Join(mount.Name(), dir), d.visit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, d.close())
	}
	return errors.Join(d.leave(0), d.close())
}

// stride is the number of levels between directories that are held open.
const stride = 64

// A descent holds the directories from the start to the one visited last.
type descent struct {
	mount *os.Root
	dir   string
	do    func(above *os.Root, name string) error
	names []string   // one for each level; the first is unused
	open  []*os.Root // the directories of levels 0, stride, 2*stride and so on
}

func (d *descent) visit(e filetree.Entry) error {
	if !e.IsDir {
		return nil
	}
	if err := d.leave(e.Depth); err != nil {
		return err
	}
	d.names = append(d.names, e.Name)
	if e.Depth%stride != 0 {
		return nil
	}
	above, name := d.at(e.Depth)
	root, err := above.OpenRoot(name)
	if err != nil {
		d.names = d.names[:e.Depth]
		return err
	}
	d.open = append(d.open, root)
	return nil
}

// at returns a level as its path from a directory that is open.
func (d *descent) at(level int) (above *os.Root, name string) {
	if level == 0 {
		return d.mount, d.dir
	}
	from := (level - 1) / stride
	return d.open[from], path.Join(d.names[from*stride+1 : level+1]...)
}

// leave closes all levels from the given one on.
func (d *descent) leave(level int) error {
	for last := len(d.names) - 1; last >= level; last-- {
		if last%stride == 0 {
			if err := d.open[last/stride].Close(); err != nil {
				return err
			}
			d.open = d.open[:last/stride]
		}
		if err := d.do(d.at(last)); err != nil {
			return err
		}
		d.names = d.names[:last]
	}
	return nil
}

func (d *descent) close() error {
	var errs []error
	for _, root := range d.open {
		errs = append(errs, root.Close())
	}
	return errors.Join(errs...)
}

const (
	// maxProcesses limits the bytes read from a list of processes. Processes beyond it
	// are found after the others were killed.
	maxProcesses = 1 << 20
	// batch limits the processes held open at a time, each with a descriptor.
	batch = 256
)

// mayBeKilled counts one cgroup's processes. It returns an error if one of them must not be killed.
func mayBeKilled(mount *os.Root, dir string) (found int, err error) {
	list, err := processes(mount, dir)
	for _, pid := range list {
		if pid <= 1 || pid == os.Getpid() {
			return 0, fmt.Errorf("process %d in %s is not to be killed: it is the agent, the first one, or of another PID namespace", pid, dir)
		}
	}
	return len(list), err
}

// killIn kills one cgroup's processes. It reads the list once for each batch of processes: a container may
// have as many processes as its limit allows.
func killIn(ctx context.Context, mount *os.Root, dir string) (found int, err error) {
	list, err := processes(mount, dir)
	if err != nil {
		return 0, err
	}
	for some := range slices.Chunk(list, batch) {
		if err := ctx.Err(); err != nil {
			return len(list), err
		}
		if err := killSome(mount, dir, some); err != nil {
			return len(list), err
		}
	}
	return len(list), nil
}

// processes returns a cgroup's processes. The kernel lists a threaded cgroup's processes only in
// the domain above it. Containers can create threaded cgroups.
func processes(mount *os.Root, dir string) (list []int, err error) {
	text, err := readFile(mount, path.Join(dir, procs), maxProcesses)
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	if len(text) == maxProcesses { // the last one may be cut
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	for field := range strings.FieldsSeq(text) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return nil, fmt.Errorf("%s of %s: %w", procs, dir, err)
		}
		list = append(list, pid)
	}
	return list, nil
}

// killSome kills processes in a cgroup. It opens the processes and then checks that they are still
// in the cgroup, because another process may have reused a number.
func killSome(mount *os.Root, dir string, pids []int) error {
	held := make(map[int]*os.Process, len(pids))
	defer func() {
		for _, p := range held {
			_ = p.Release()
		}
	}()
	for _, pid := range pids {
		if pid <= 1 || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return err
		}
		held[pid] = p
	}
	again, err := processes(mount, dir)
	if err != nil {
		return err
	}
	for _, pid := range again {
		p := held[pid]
		if p == nil {
			continue
		}
		if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("process %d: %w", pid, err)
		}
	}
	return nil
}

// removeAll removes a cgroup's directories. The kernel may hold one a little longer than
// its processes.
func (t *Tree) removeAll(ctx context.Context, mount *os.Root, dir string) error {
	for {
		err := t.removeOnce(ctx, mount, dir)
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

func (t *Tree) removeOnce(ctx context.Context, mount *os.Root, dir string) error {
	return each(ctx, mount, dir, func(above *os.Root, name string) error {
		if t.beforeRemove != nil {
			if err := t.beforeRemove(above, name); err != nil {
				return err
			}
		}
		return ignoreNotExist(above.Remove(name))
	})
}
