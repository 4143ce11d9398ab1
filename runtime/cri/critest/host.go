package critest

import (
	"errors"
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
	disk   []folder // dir and Config.LogsRoot
	memory *memfs.FS
}

// A folder is a machine directory. Its root keeps names and links inside it.
type folder struct {
	path string // absolute
	root *os.Root
}

func openHost(cfg Config) (*host, error) {
	h := &host{memory: memfs.NewNode()}
	if err := h.openLogsRoot(cfg.LogsRoot); err != nil {
		return nil, fmt.Errorf("critest: Config.LogsRoot: %w", err)
	}
	if err := h.openDir(cfg.Dir); err != nil {
		return nil, errors.Join(fmt.Errorf("critest: Config.Dir: %w", err), h.close())
	}
	return h, nil
}

func (h *host) openLogsRoot(path string) error {
	if path == "" {
		return nil
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	_, err := h.open(path)
	return err
}

func (h *host) openDir(path string) (err error) {
	if path != "" {
		h.dir, err = h.open(path)
	}
	return err
}

// open adds a directory of the machine and returns its absolute path.
func (h *host) open(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(path)
	if err == nil {
		h.disk = append(h.disk, folder{path: path, root: root})
	}
	return path, err
}

func (h *host) close() error {
	var errs []error
	for _, f := range h.disk {
		errs = append(errs, f.root.Close())
	}
	return errors.Join(errs...)
}

// real returns the folder that contains a name, and the name relative to it.
func (h *host) real(name string) (root *os.Root, rel string, ok bool) {
	for _, f := range h.disk {
		rel, err := filepath.Rel(f.path, filepath.Clean(name))
		if err == nil && filepath.IsLocal(rel) {
			return f.root, rel, true
		}
	}
	return nil, "", false
}

// source returns the directory of a mount whose host path is a link, as mount does. Its target must be below a directory
// where files are real, too.
func (h *host) source(name string) string {
	root, rel, ok := h.real(name)
	if !ok {
		return name
	}
	if info, err := root.Lstat(rel); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return name
	}
	target, err := filepath.EvalSymlinks(name)
	if _, _, ok := h.real(target); err != nil || !ok {
		return name
	}
	return target
}

func (h *host) ReadFile(name string) ([]byte, error) {
	if root, rel, ok := h.real(name); ok {
		return root.ReadFile(rel)
	}
	return h.memory.ReadFile(name)
}

func (h *host) WriteFile(name string, data []byte, add bool) error {
	root, rel, ok := h.real(name)
	if !ok {
		return h.memory.WriteFile(name, data, add)
	}
	f, err := root.OpenFile(rel, writeFlags(add), 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func writeFlags(add bool) int {
	if add {
		return os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	return os.O_CREATE | os.O_WRONLY | os.O_TRUNC
}

func (h *host) Stat(name string) (fs.FileInfo, error) {
	if root, rel, ok := h.real(name); ok {
		return root.Stat(rel)
	}
	return h.memory.Stat(name)
}

func (h *host) ReadDir(name string) ([]fs.DirEntry, error) {
	if root, rel, ok := h.real(name); ok {
		return fs.ReadDir(root.FS(), filepath.ToSlash(rel))
	}
	return h.memory.ReadDir(name)
}

func (h *host) Mkdir(name string) error {
	if root, rel, ok := h.real(name); ok {
		return root.Mkdir(rel, 0o755)
	}
	return h.memory.Mkdir(name)
}

func (h *host) Remove(name string) error {
	if root, rel, ok := h.real(name); ok {
		return root.Remove(rel)
	}
	return h.memory.Remove(name)
}

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
	root, rel, ok := h.real(dir)
	if !ok {
		name = filepath.Join(dir, name)
		return memoryFile{h.memory, name}, h.memory.WriteFile(name, nil, true)
	}
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
}

// makeDir creates a directory where files are real. Memory has no directories.
func (h *host) makeDir(name string) error {
	if root, rel, ok := h.real(name); ok {
		return root.MkdirAll(rel, 0o700)
	}
	return nil
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
