// Package memfs is a file system in memory: that of a node, or the one of a container.
package memfs

import (
	"bytes"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// An FS is a file system. Its methods may be called concurrently, and names are absolute.
type FS struct {
	strict bool

	mu sync.Mutex
	m  map[string]*node // without the standard directories
}

type node struct {
	data []byte
	dir  bool
	at   time.Time // of the last change
}

// NewNode returns the file system of a node: a write also creates its file's directories.
func NewNode() *FS { return &FS{m: map[string]*node{}} }

// NewContainer returns the file system of a container. It has the usual directories in an image.
func NewContainer() *FS { return &FS{m: map[string]*node{}, strict: true} }

// standard returns the directories that an image has, each after the one that contains it.
func standard() []string {
	return strings.Fields("/ /bin /dev /etc /home /lib /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /usr/bin /usr/lib /usr/local " +
		"/usr/local/bin /usr/sbin /usr/share /usr/share/nginx /usr/share/nginx/html /var /var/cache /var/lib /var/log /var/run /var/spool " +
		"/var/tmp /var/www /var/www/html")
}

// find returns the file or directory, or nil. It must be called with mu held.
func (f *FS) find(name string) *node {
	if n := f.m[name]; n != nil {
		return n
	}
	if f.strict && slices.Contains(standard(), name) || !f.strict && name == "/" {
		return &node{dir: true}
	}
	return nil
}

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// ReadFile returns a file's content.
func (f *FS) ReadFile(name string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n := f.find(path.Clean(name)); {
	case n == nil:
		return nil, fail("open", name, fs.ErrNotExist)
	case n.dir:
		return nil, fail("read", name, errIsDir)
	default:
		return bytes.Clone(n.data), nil
	}
}

// ErrReadOnly is the error of a change in a file system that is read-only.
const ErrReadOnly = failure("Read-only file system")

const (
	errIsDir    = failure("Is a directory")
	errNotDir   = failure("Not a directory")
	errNotEmpty = failure("Directory not empty")
)

// A failure has the text of an error of Linux.
type failure string

func (f failure) Error() string { return string(f) }

// WriteFile creates the file if it does not exist. It appends if add is true.
func (f *FS) WriteFile(name string, data []byte, add bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = path.Clean(name)
	n := f.find(name)
	switch {
	case n != nil && n.dir:
		return fail("open", name, errIsDir)
	case n == nil:
		if err := f.hasParent(name); err != nil {
			return fail("open", name, err)
		}
		n = &node{}
		f.m[name] = n
	}
	if !add {
		n.data = nil
	}
	n.data, n.at = append(n.data, data...), time.Now()
	return nil
}

// hasParent must be called with mu held.
func (f *FS) hasParent(name string) error {
	dir := path.Dir(name)
	if !f.strict {
		f.mkdirAll(dir)
	}
	switch p := f.find(dir); {
	case p == nil:
		return fs.ErrNotExist
	case !p.dir:
		return errNotDir
	}
	return nil
}

// Mkdir creates a directory.
func (f *FS) Mkdir(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = path.Clean(name)
	if f.find(name) != nil {
		return fail("mkdir", name, fs.ErrExist)
	}
	if err := f.hasParent(name); err != nil {
		return fail("mkdir", name, err)
	}
	f.m[name] = &node{dir: true, at: time.Now()}
	return nil
}

// MkdirAll creates a directory, and those that contain it.
func (f *FS) MkdirAll(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mkdirAll(path.Clean(name))
}

func (f *FS) mkdirAll(name string) {
	for ; f.find(name) == nil && name != "."; name = path.Dir(name) {
		f.m[name] = &node{dir: true, at: time.Now()}
	}
}

// Remove removes a file, or an empty directory.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = path.Clean(name)
	switch n := f.find(name); {
	case n == nil:
		return fail("remove", name, fs.ErrNotExist)
	case n.dir && (len(f.children(name)) > 0 || f.m[name] == nil):
		return fail("remove", name, errNotEmpty)
	}
	delete(f.m, name)
	return nil
}

// children returns the names in a directory. It must be called with mu held.
func (f *FS) children(name string) []string {
	found := map[string]bool{}
	add := func(k string) {
		if rel, ok := strings.CutPrefix(k, strings.TrimSuffix(name, "/")+"/"); ok && rel != "" {
			first, _, _ := strings.Cut(rel, "/")
			found[first] = true
		}
	}
	for k := range f.m {
		add(k)
	}
	if f.strict {
		for _, k := range standard() {
			add(k)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Stat returns what is known of a file or directory.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(path.Clean(name))
	if n == nil {
		return nil, fail("stat", name, fs.ErrNotExist)
	}
	return info{name: path.Base(name), node: *n}, nil
}

// ReadDir returns what a directory contains, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name = path.Clean(name)
	switch n := f.find(name); {
	case n == nil:
		return nil, fail("open", name, fs.ErrNotExist)
	case !n.dir:
		return nil, fail("readdir", name, errNotDir)
	}
	var out []fs.DirEntry
	for _, child := range f.children(name) {
		out = append(out, fs.FileInfoToDirEntry(info{name: child, node: *f.find(path.Join(name, child))}))
	}
	return out, nil
}

// DirInfo describes a directory that is somewhere else.
func DirInfo(name string) fs.FileInfo { return info{name: path.Base(name), node: node{dir: true}} }

type info struct {
	name string
	node node
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(len(i.node.data)) }
func (i info) ModTime() time.Time { return i.node.at }
func (i info) IsDir() bool        { return i.node.dir }
func (i info) Sys() any           { return nil }

// Mode says that each file is executable: there is no chmod.
func (i info) Mode() fs.FileMode {
	if i.node.dir {
		return fs.ModeDir | 0o755
	}
	return 0o755
}
