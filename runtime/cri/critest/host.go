package critest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A host is the node's disk as containers reach it by mounts and logs: real
// files below the directory, memory everywhere else.
type host struct {
	dir    string   // absolute, or "" for memory alone
	root   *os.Root // keeps names and links inside dir
	memory *memory
}

func openHost(dir string) (*host, error) {
	h := &host{memory: newMemory()}
	if dir == "" {
		return h, nil
	}
	var err error
	if h.dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("critest: Config.Dir: %w", err)
	}
	if h.root, err = os.OpenRoot(h.dir); err != nil {
		return nil, fmt.Errorf("critest: Config.Dir: %w", err)
	}
	return h, nil
}

func (h *host) close() error {
	if h.root == nil {
		return nil
	}
	return h.root.Close()
}

// real is a name relative to the directory, if the name is below it.
func (h *host) real(name string) (rel string, ok bool) {
	if h.root == nil {
		return "", false
	}
	rel, err := filepath.Rel(h.dir, filepath.Clean(name))
	return rel, err == nil && filepath.IsLocal(rel)
}

func (h *host) ReadFile(name string) ([]byte, error) {
	if rel, ok := h.real(name); ok {
		return h.root.ReadFile(rel)
	}
	return h.memory.ReadFile(name)
}

func (h *host) WriteFile(name string, data []byte, add bool) error {
	rel, ok := h.real(name)
	if !ok {
		return h.memory.WriteFile(name, data, add)
	}
	f, err := h.root.OpenFile(rel, writeFlags(add), 0o644)
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

func (h *host) Exists(name string) bool {
	if rel, ok := h.real(name); ok {
		_, err := h.root.Stat(rel)
		return err == nil
	}
	return h.memory.Exists(name)
}

func (h *host) Remove(name string) error {
	if rel, ok := h.real(name); ok {
		return h.root.Remove(rel)
	}
	return h.memory.Remove(name)
}

// open opens a log to append to it, and makes it, but not its directory.
func (h *host) open(name string) (io.WriteCloser, error) {
	if rel, ok := h.real(name); ok {
		return h.root.OpenFile(rel, writeFlags(true), 0o640)
	}
	return memoryFile{h.memory, name}, nil
}

// ReadFile reads a file of the node as containers and the runtime have
// written it, whether it is on disk or in memory: a log, a termination message.
func (r *Runtime) ReadFile(name string) ([]byte, error) { return r.host.ReadFile(name) }

// WriteFile writes a file of the node that containers see by their mounts.
func (r *Runtime) WriteFile(name string, data []byte) error {
	return r.host.WriteFile(name, data, false)
}
