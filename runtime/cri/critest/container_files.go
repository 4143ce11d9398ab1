package critest

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/memfs"
	"github.com/podsync/podsync/runtime/cri/critest/internal/sh"
)

// files is the file system of a container.
type files struct {
	mounts []mount // the deepest first; the last one is the container's own file system
}

// A mount is a part of a container's file system.
type mount struct {
	at       string // in the container
	files    sh.Files
	dir      string // of files
	readOnly bool
}

// newFiles returns the file system of a container, with the files of its image and of its sandbox. It must be called with mu
// held.
func (s service) newFiles(c *container) (*files, error) {
	own := memfs.NewContainer()
	c.image.unpack(own)
	f := &files{}
	for _, m := range c.config.GetMounts() {
		to := mount{at: path.Join("/", m.GetContainerPath()), files: s.host, dir: s.host.source(m.GetHostPath()), readOnly: m.GetReadonly()}
		switch {
		case m.GetImage().GetImage() != "":
			var err error
			if to.files, to.dir, err = s.mountImage(m); err != nil {
				return nil, err
			}
		case m.GetHostPath() == "":
			continue
		}
		own.MkdirAll(path.Dir(to.at))
		f.mounts = append(f.mounts, to)
	}
	for name, text := range c.sandbox.etc() {
		_ = own.WriteFile(name, []byte(text), false) // a mount is in its place otherwise
	}
	readOnly := c.config.GetLinux().GetSecurityContext().GetReadonlyRootfs()
	f.mounts = append(f.mounts, mount{at: "/", files: own, dir: "/", readOnly: readOnly})
	slices.SortStableFunc(f.mounts, func(a, b mount) int { return cmp.Compare(len(b.at), len(a.at)) })
	return f, nil
}

// mountImage returns the files of an image that is mounted, and the directory in it. It adds the image's ID to the mount. It must be called with mu held.
func (s service) mountImage(m *runtimeapi.Mount) (sh.Files, string, error) {
	name := m.GetImage().GetImage()
	if s.cfg.Like == Containerd16 { // which takes it for a mount of no directory
		return nil, "", status.Errorf(codes.Unknown, "failed to generate container spec: failed to mkdir %q: mkdir : no such file or directory", "")
	}
	image, ok := s.images.resolve(name)
	if !ok {
		return nil, "", status.Errorf(s.cfg.Like.imageMissing(), "failed to resolve image %q to mount at %s: not found", name, m.GetContainerPath())
	}
	if m.GetHostPath() != "" || !m.GetReadonly() {
		return nil, "", status.Errorf(codes.Unknown, "ImageVolumeMountFailed: the mount of image %q at %s must be read-only and without a host path", name, m.GetContainerPath())
	}
	own, dir := memfs.NewNode(), path.Join("/", m.GetImageSubPath())
	image.unpack(own)
	if info, err := own.Stat(dir); err != nil || !info.IsDir() {
		return nil, "", status.Errorf(codes.Unknown, "ImageVolumeMountFailed: image %q has no directory %q", name, m.GetImageSubPath())
	}
	m.Image.ImageRef = image.ID // as the status reports it
	return own, dir, nil
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

// find returns the mount that contains a name, and the name there.
func (f *files) find(name string) (m mount, in string) {
	name = path.Join("/", name)
	var rel string
	for _, m = range f.mounts { // the last one contains all names
		var ok bool
		if rel, ok = strings.CutPrefix(name, strings.TrimSuffix(m.at, "/")); ok && (rel == "" || rel[0] == '/') {
			break
		}
	}
	if _, onHost := m.files.(*host); onHost {
		return m, filepath.Join(m.dir, filepath.FromSlash(rel))
	}
	return m, path.Join(m.dir, rel)
}

// change returns the mount in which a file may change.
func (f *files) change(op, name string) (m mount, in string, _ error) {
	m, in = f.find(name)
	if m.readOnly {
		return m, in, &fs.PathError{Op: op, Path: name, Err: memfs.ErrReadOnly}
	}
	return m, in, nil
}

func (f *files) ReadFile(name string) ([]byte, error) {
	m, in := f.find(name)
	return m.files.ReadFile(in)
}

func (f *files) WriteFile(name string, data []byte, add bool) error {
	m, in, err := f.change("open", name)
	if err != nil {
		return err
	}
	return m.files.WriteFile(in, data, add)
}

func (f *files) Stat(name string) (fs.FileInfo, error) {
	m, in := f.find(name)
	info, err := m.files.Stat(in)
	if err != nil && path.Clean(name) == m.at {
		return memfs.DirInfo(name), nil // memory has a directory of the node once something is in it
	}
	return info, err
}

func (f *files) ReadDir(name string) ([]fs.DirEntry, error) {
	m, in := f.find(name)
	entries, err := m.files.ReadDir(in)
	if err != nil && !(errors.Is(err, fs.ErrNotExist) && path.Clean(name) == m.at) {
		return nil, err
	}
	for _, m := range f.mounts {
		if info, err := f.Stat(m.at); err == nil && m.at != "/" && path.Dir(m.at) == path.Clean(name) {
			entries = append(entries, named{fs.FileInfoToDirEntry(info), path.Base(m.at)})
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
	m, in, err := f.change("mkdir", name)
	switch {
	case path.Clean(name) == m.at:
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	case err != nil:
		return err
	}
	return m.files.Mkdir(in)
}

func (f *files) Remove(name string) error {
	m, in, err := f.change("remove", name)
	if err != nil {
		return err
	}
	return m.files.Remove(in)
}
