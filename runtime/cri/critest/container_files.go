package critest

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
)

// A files is the file system of a container: its mounts, and its own files in memory.
type files struct {
	host     *host
	own      *memfs.FS
	readOnly bool                // own is
	mounts   []*runtimeapi.Mount // the deepest first
}

func newFiles(h *host, config *runtimeapi.ContainerConfig, sb *sandbox) *files {
	sorted := slices.Clone(config.GetMounts())
	slices.SortStableFunc(sorted, func(a, b *runtimeapi.Mount) int {
		return cmp.Compare(len(path.Clean(b.GetContainerPath())), len(path.Clean(a.GetContainerPath())))
	})
	own := memfs.NewContainer()
	for i, m := range sorted {
		if from := h.source(m.GetHostPath()); from != m.GetHostPath() {
			sorted[i] = proto.CloneOf(m)
			sorted[i].HostPath = from
		}
		own.MkdirAll(path.Dir(m.GetContainerPath()))
	}
	f := &files{host: h, own: own, readOnly: config.GetLinux().GetSecurityContext().GetReadonlyRootfs(), mounts: sorted}
	for name, text := range sb.etc() {
		_ = own.WriteFile(name, []byte(text), false) // a mount is in its place otherwise
	}
	return f
}

// etc returns the files that a runtime puts into each container. It must be called with mu held.
func (s *sandbox) etc() map[string]string {
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost\n"
	for _, ip := range s.ips {
		hosts += ip + "\t" + s.hostname() + "\n"
	}
	dns := s.config.GetDnsConfig()
	var resolv []string
	if len(dns.GetSearches()) > 0 {
		resolv = append(resolv, "search "+strings.Join(dns.GetSearches(), " ")+"\n")
	}
	for _, server := range dns.GetServers() {
		resolv = append(resolv, "nameserver "+server+"\n")
	}
	if len(dns.GetOptions()) > 0 {
		resolv = append(resolv, "options "+strings.Join(dns.GetOptions(), " ")+"\n")
	}
	return map[string]string{
		"/etc/hostname": s.hostname() + "\n", "/etc/hosts": hosts, "/etc/resolv.conf": strings.Join(resolv, ""),
		"/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
	}
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
	case f.isReadOnly(m):
		return &fs.PathError{Op: "open", Path: name, Err: memfs.ErrReadOnly}
	case m == nil:
		return f.own.WriteFile(name, data, add)
	}
	return f.host.WriteFile(hostName, data, add)
}

func (f *files) Stat(name string) (fs.FileInfo, error) {
	m, hostName := f.mount(name)
	if m == nil {
		return f.own.Stat(name)
	}
	info, err := f.host.Stat(hostName)
	if err != nil && path.Clean(name) == path.Clean(m.GetContainerPath()) {
		return memfs.DirInfo(name), nil // memory has a directory of the node once something is in it
	}
	return info, err
}

func (f *files) ReadDir(name string) ([]fs.DirEntry, error) {
	if m, hostName := f.mount(name); m != nil {
		entries, err := f.host.ReadDir(hostName)
		if errors.Is(err, fs.ErrNotExist) && path.Clean(name) == path.Clean(m.GetContainerPath()) {
			return nil, nil
		}
		return entries, err
	}
	entries, err := f.own.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, m := range f.mounts {
		at := path.Clean(m.GetContainerPath())
		if info, err := f.Stat(at); err == nil && path.Dir(at) == path.Clean(name) {
			entries = append(entries, named{fs.FileInfoToDirEntry(info), path.Base(at)})
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.CompactFunc(entries, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }), nil
}

// named is an entry of a directory, under its name in the container.
type named struct {
	fs.DirEntry
	name string
}

func (n named) Name() string { return n.name }

func (f *files) Mkdir(name string) error {
	m, hostName := f.mount(name)
	switch {
	case m != nil && path.Clean(name) == path.Clean(m.GetContainerPath()):
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	case f.isReadOnly(m):
		return &fs.PathError{Op: "mkdir", Path: name, Err: memfs.ErrReadOnly}
	case m == nil:
		return f.own.Mkdir(name)
	}
	return f.host.Mkdir(hostName)
}

func (f *files) Remove(name string) error {
	m, hostName := f.mount(name)
	switch {
	case f.isReadOnly(m):
		return &fs.PathError{Op: "remove", Path: name, Err: memfs.ErrReadOnly}
	case m == nil:
		return f.own.Remove(name)
	}
	return f.host.Remove(hostName)
}

// isReadOnly reports whether a mount, or without one the container's own file system, rejects changes.
func (f *files) isReadOnly(m *runtimeapi.Mount) bool {
	if m == nil {
		return f.readOnly
	}
	return m.GetReadonly()
}
