package sh

import (
	"os"
	"sync"
)

// memFiles is a flat file system in memory.
type memFiles struct {
	mu sync.Mutex
	m  map[string][]byte
}

func newMemFiles() *memFiles { return &memFiles{m: map[string][]byte{}} }

func (f *memFiles) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.m[name]
	if !ok {
		return nil, os.ErrNotExist
	}
	return b, nil
}

func (f *memFiles) WriteFile(name string, data []byte, add bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !add {
		f.m[name] = nil
	}
	f.m[name] = append(f.m[name], data...)
	return nil
}

func (f *memFiles) Exists(name string) bool {
	_, err := f.ReadFile(name)
	return err == nil
}

func (f *memFiles) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.m[name]; !ok {
		return os.ErrNotExist
	}
	delete(f.m, name)
	return nil
}
