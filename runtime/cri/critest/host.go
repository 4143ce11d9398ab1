package critest

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
)

// A host is the node's disk, as containers access it through mounts and logs: real files below some
// directories, and memory everywhere else.
type host struct {
	dir    string   // Config.Dir as an absolute path, if it is set
	disk   []string // dir and Config.LogsRoot
	memory *memfs.FS
}

func openHost(cfg Config) (*host, error) {
	h := &host{memory: memfs.NewNode()}
	if cfg.LogsRoot != "" {
		err := os.MkdirAll(cfg.LogsRoot, 0o755)
		if err == nil {
			_, err = h.open(cfg.LogsRoot)
		}
		if err != nil {
			return nil, fmt.Errorf("critest: Config.LogsRoot: %w", err)
		}
	}
	if cfg.Dir != "" {
		var err error
		if h.dir, err = h.open(cfg.Dir); err != nil {
			return nil, fmt.Errorf("critest: Config.Dir: %w", err)
		}
	}
	return h, nil
}

// open adds a directory of the machine and returns its absolute path.
func (h *host) open(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", err
	}
	h.disk = append(h.disk, path)
	return path, root.Close()
}

// real returns the directory of the machine that contains a name, and the name relative to it.
func (h *host) real(name string) (dir, rel string, ok bool) {
	for _, dir := range h.disk {
		rel, err := filepath.Rel(dir, filepath.Clean(name))
		if err == nil && filepath.IsLocal(rel) {
			return dir, rel, true
		}
	}
	return "", "", false
}

// at calls disk for a file of the machine, whose root keeps names and links inside it, and memory for any other. It opens the
// root each time, because a kubelet mounts its directory on itself: an older root would not show what is mounted below.
func at[T any](h *host, name string, disk func(root *os.Root, rel string) (T, error), memory func(name string) (T, error)) (T, error) {
	dir, rel, ok := h.real(name)
	if !ok {
		return memory(name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		var none T
		return none, err
	}
	defer root.Close() // it was only needed to open files
	return disk(root, rel)
}

// change is at for functions that return only an error.
func (h *host) change(name string, disk func(root *os.Root, rel string) error, memory func(name string) error) error {
	_, err := at(h, name,
		func(root *os.Root, rel string) (struct{}, error) { return struct{}{}, disk(root, rel) },
		func(name string) (struct{}, error) { return struct{}{}, memory(name) })
	return err
}

// source returns the directory of a mount whose host path is a link, as mount does. Its target must be below a directory
// where files are real, too.
func (h *host) source(name string) string {
	info, err := at(h, name, (*os.Root).Lstat, h.memory.Stat)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return name
	}
	target, err := filepath.EvalSymlinks(name)
	if _, _, ok := h.real(target); err != nil || !ok {
		return name
	}
	return target
}

func (h *host) ReadFile(name string) ([]byte, error) {
	return at(h, name, (*os.Root).ReadFile, h.memory.ReadFile)
}

func (h *host) WriteFile(name string, data []byte, add bool) error {
	return h.change(name, func(root *os.Root, rel string) error {
		f, err := root.OpenFile(rel, writeFlags(add), 0o644)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	}, func(name string) error { return h.memory.WriteFile(name, data, add) })
}

func writeFlags(add bool) int {
	if add {
		return os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	return os.O_CREATE | os.O_WRONLY | os.O_TRUNC
}

func (h *host) Stat(name string) (fs.FileInfo, error) {
	return at(h, name, (*os.Root).Stat, h.memory.Stat)
}

func (h *host) ReadDir(name string) ([]fs.DirEntry, error) {
	return at(h, name, func(root *os.Root, rel string) ([]fs.DirEntry, error) {
		return fs.ReadDir(root.FS(), filepath.ToSlash(rel))
	}, h.memory.ReadDir)
}

func (h *host) Mkdir(name string) error {
	return h.change(name, func(root *os.Root, rel string) error { return root.Mkdir(rel, 0o755) }, h.memory.Mkdir)
}

func (h *host) Remove(name string) error { return h.change(name, (*os.Root).Remove, h.memory.Remove) }

// mountpoint returns the directory of the machine that represents the file system of images:
// Config.Dir, or else the root directory.
func (h *host) mountpoint() string {
	if h.dir == "" {
		return string(filepath.Separator)
	}
	return h.dir
}

// openLog opens a log for appending, and creates it with its directories. No link leads out of dir,
// its sandbox's log directory.
func (h *host) openLog(dir, name string) (io.WriteCloser, error) {
	return at(h, dir, func(root *os.Root, rel string) (io.WriteCloser, error) {
		if err := root.MkdirAll(rel, 0o755); err != nil {
			return nil, err
		}
		logs, err := root.OpenRoot(rel)
		if err != nil {
			return nil, err
		}
		defer logs.Close() // it was only needed to open the log
		if err := logs.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		return logs.OpenFile(name, writeFlags(true), 0o640)
	}, func(dir string) (io.WriteCloser, error) {
		name := filepath.Join(dir, name)
		return memoryFile{h.memory, name}, h.memory.WriteFile(name, nil, true)
	})
}

// makeDir creates a directory where files are real. Memory has no directories.
func (h *host) makeDir(name string) error {
	return h.change(name, func(root *os.Root, rel string) error { return root.MkdirAll(rel, 0o700) }, func(string) error { return nil })
}

// ReadFile reads a file of the node that a container or the runtime has written, on disk or in memory:
// a log or a termination message, for example.
func (r *Runtime) ReadFile(name string) ([]byte, error) { return r.host.ReadFile(name) }

// WriteFile writes a file of the node. Containers see it through their mounts.
func (r *Runtime) WriteFile(name string, data []byte) error {
	return r.host.WriteFile(name, data, false)
}

// A memoryFile appends to one file.
type memoryFile struct {
	m    *memfs.FS
	name string
}

func (f memoryFile) Write(b []byte) (int, error) {
	if err := f.m.WriteFile(f.name, b, true); err != nil {
		return 0, fmt.Errorf("critest: %w", err)
	}
	return len(b), nil
}

func (memoryFile) Close() error { return nil }
