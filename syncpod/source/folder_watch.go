package source

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// A change describes what may have changed in a folder.
type change struct {
	files map[string]bool
	// removed are files that were removed. They may exist again by now.
	removed map[string]bool
	// links means that symbolic links' targets may have changed.
	links bool
	// all means that everything may have changed, the folder itself included.
	all bool
	// moved means that a complete file was moved into place, written that a file may still still
	// be written.
	moved, written bool
}

// add merges another change.
func (c *change) add(more change) {
	c.files = union(c.files, more.files)
	c.removed = union(c.removed, more.removed)
	c.links = c.links || more.links
	c.all = c.all || more.all
	c.moved = c.moved || more.moved
	c.written = c.written || more.written
}

// union adds more to names, which may be nil, and returns it.
func union(names, more map[string]bool) map[string]bool {
	if names == nil {
		return maps.Clone(more)
	}
	maps.Copy(names, more)
	return names
}

// settled reports whether all files are complete, so that no wait is necessary.
func (c *change) settled() bool { return c.moved && !c.written }

func (c *change) concerns(e os.DirEntry) bool {
	return c.files[e.Name()] || c.links && e.Type()&fs.ModeSymlink != 0
}

// A watch reports changes in a folder. A nil watch reports none.
type watch struct {
	info    os.FileInfo
	changed chan change
	stop    func()
}

// newWatch watches a folder.
func newWatch(dir string) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	err = watcher.Add(dir)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(dir)
	}
	if err != nil {
		watcher.Close()
		return nil, err
	}
	w := &watch{info: info, changed: make(chan change)}
	done, stopped := make(chan struct{}), make(chan struct{})
	w.stop = func() {
		close(done)
		watcher.Close()
		<-stopped
	}
	go func() {
		defer close(stopped)
		w.forward(watcher, dir, done)
	}()
	return w, nil
}

// forward turns the system's events into changes. None is lost while the folder
// is being read: they are gathered until then.
func (w *watch) forward(watcher *fsnotify.Watcher, dir string, done <-chan struct{}) {
	var pending change
	var out chan change // nil as long as nothing is pending
	var last fsnotify.Event
	for {
		select {
		case <-done:
			return
		case out <- pending:
			pending, out = change{}, nil
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			pending.add(changeOf(event, last, dir))
			last, out = event, w.changed
		case _, ok := <-watcher.Errors: // events may have been lost
			if !ok {
				return
			}
			pending.add(change{all: true})
			out = w.changed
		}
	}
}

// changeOf converts an event; last is the event before it.
func changeOf(event, last fsnotify.Event, dir string) change {
	name := filepath.Base(event.Name)
	switch {
	case event.Name == dir:
		return change{all: true}
	case strings.HasPrefix(name, "."):
		return change{links: true} // a mounted ConfigMap is changed through such a link
	}
	moved := event.Has(fsnotify.Create) && isStaged(last) && inOrder
	c := change{files: map[string]bool{name: true}, moved: moved, written: !moved}
	if event.Has(fsnotify.Remove) && inOrder { // elsewhere a file that another one replaces is reported as removed
		c.removed = c.files
	}
	return c
}

// isStaged reports whether a file that is not a manifest was renamed: it was written under that
// name in order to be moved. If a manifest is renamed, its replacement may still still be written.
func isStaged(event fsnotify.Event) bool {
	return event.Has(fsnotify.Rename) && !isManifest(filepath.Base(event.Name))
}

// inOrder means that the system reports a file's new name right after the old one.
const inOrder = goruntime.GOOS == "linux"

// stillOf reports whether the path still leads to the watched folder.
func (w *watch) stillOf(dir string) bool {
	if w == nil {
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && os.SameFile(info, w.info)
}

// changes returns the change channel. Without a watch it is nil and never receives.
func (w *watch) changes() <-chan change {
	if w == nil {
		return nil
	}
	return w.changed
}

func (w *watch) close() {
	if w != nil {
		w.stop()
	}
}
