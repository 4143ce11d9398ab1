package critest

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
)

// A memory is an in-memory file system without directories: a directory exists if a file is below it.
type memory struct {
	mu sync.Mutex
	m  map[string][]byte
}

func newMemory() *memory { return &memory{m: map[string][]byte{}} }

func (m *memory) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.m[path.Clean(name)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return bytes.Clone(b), nil
}

func (m *memory) WriteFile(name string, data []byte, add bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if !add {
		m.m[name] = nil
	}
	m.m[name] = append(m.m[name], data...)
	return nil
}

func (m *memory) Exists(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if _, ok := m.m[name]; ok {
		return true
	}
	for k := range m.m {
		if strings.HasPrefix(k, name+"/") {
			return true
		}
	}
	return false
}

func (m *memory) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if _, ok := m.m[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.m, name)
	return nil
}

// A memoryFile appends to one file.
type memoryFile struct {
	m    *memory
	name string
}

func (f memoryFile) Write(b []byte) (int, error) {
	if err := f.m.WriteFile(f.name, b, true); err != nil {
		return 0, fmt.Errorf("critest: %w", err)
	}
	return len(b), nil
}

func (memoryFile) Close() error { return nil }
