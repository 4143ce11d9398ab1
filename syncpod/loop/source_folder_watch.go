package loop

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// A change tells what in a folder may have changed.
type change struct {
	files map[string]bool
	// links tells that what symbolic links lead to may have.
	links bool
	// all tells that anything may have, the folder itself too.
	all bool
}

// add adds what another change tells.
func (c *change) add(more change) {
	for name := range more.files {
		if c.files == nil {
			c.files = map[string]bool{}
		}
		c.files[name] = true
	}
	c.links = c.links || more.links
	c.all = c.all || more.all
}

func (c *change) concerns(e os.DirEntry) bool {
	return c.files[e.Name()] || c.links && e.Type()&fs.ModeSymlink != 0
}

// A watch tells of changes in a folder. A nil one tells of none.
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
			pending.add(changeOf(event, dir))
			out = w.changed
		case _, ok := <-watcher.Errors: // events may have been lost
			if !ok {
				return
			}
			pending.add(change{all: true})
			out = w.changed
		}
	}
}

func changeOf(event fsnotify.Event, dir string) change {
	name := filepath.Base(event.Name)
	switch {
	case event.Name == dir:
		return change{all: true}
	case strings.HasPrefix(name, "."):
		return change{links: true} // through one such a mounted ConfigMap is changed
	}
	return change{files: map[string]bool{name: true}}
}

// stillOf reports whether it is this folder that is now at the path.
func (w *watch) stillOf(dir string) bool {
	if w == nil {
		return false
	}
	info, err := os.Stat(dir)
	return err == nil && os.SameFile(info, w.info)
}

// changes is nil, from which nothing ever comes, without a watch.
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
