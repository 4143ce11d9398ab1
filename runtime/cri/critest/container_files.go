package critest

import (
	"cmp"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A files is the file system of a container: its mounts, and its own files in memory.
type files struct {
	host   *host
	own    *memory
	mounts []*runtimeapi.Mount // the deepest first
}

func newFiles(h *host, mounts []*runtimeapi.Mount) *files {
	sorted := slices.Clone(mounts)
	slices.SortStableFunc(sorted, func(a, b *runtimeapi.Mount) int {
		return cmp.Compare(len(path.Clean(b.GetContainerPath())), len(path.Clean(a.GetContainerPath())))
	})
	return &files{host: h, own: newMemory(), mounts: sorted}
}

// mount returns the mount that contains a name, and the host's name of the file.
func (f *files) mount(name string) (m *runtimeapi.Mount, hostName string) {
	name = path.Clean(name)
	for _, m := range f.mounts {
		at := path.Clean(m.GetContainerPath())
		switch {
		case m.GetHostPath() == "":
		case name == at:
			return m, m.GetHostPath()
		case strings.HasPrefix(name, strings.TrimSuffix(at, "/")+"/"):
			return m, filepath.Join(m.GetHostPath(), filepath.FromSlash(strings.TrimPrefix(name, at)))
		}
	}
	return nil, ""
}

func (f *files) ReadFile(name string) ([]byte, error) {
	if m, hostName := f.mount(name); m != nil {
		return f.host.ReadFile(hostName)
	}
	return f.own.ReadFile(name)
}

func (f *files) WriteFile(name string, data []byte, add bool) error {
	m, hostName := f.mount(name)
	switch {
	case m == nil:
		return f.own.WriteFile(name, data, add)
	case m.GetReadonly():
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.host.WriteFile(hostName, data, add)
}

func (f *files) Exists(name string) bool {
	if m, hostName := f.mount(name); m != nil {
		return path.Clean(name) == path.Clean(m.GetContainerPath()) || f.host.Exists(hostName)
	}
	return f.own.Exists(name)
}

func (f *files) Remove(name string) error {
	m, hostName := f.mount(name)
	switch {
	case m == nil:
		return f.own.Remove(name)
	case m.GetReadonly():
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrPermission}
	}
	return f.host.Remove(hostName)
}
