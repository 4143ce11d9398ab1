package logs

import (
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// lookInterval is how often logs are looked at if the system does not tell of changes.
const lookInterval = time.Second

// watches tell of changes in directories. The system allows for few watchers, so that
// there is one for all, as long as anybody wants to be told.
type watches struct {
	// changing is held while somebody joins or leaves. It must not be taken by what
	// receives from the watcher, which some systems wait for.
	changing sync.Mutex
	watcher  *fsnotify.Watcher
	stopped  chan struct{}

	mu   sync.Mutex
	dirs map[string]map[chan struct{}]bool
}

// join returns a channel on which changes in a directory are told from now on, one
// for any number of them, until leave is called.
func (w *watches) join(dir string) (changed <-chan struct{}, leave func()) {
	w.changing.Lock()
	defer w.changing.Unlock()
	if w.watcher == nil {
		w.start()
	}
	if w.watcher == nil || w.watcher.Add(dir) != nil {
		w.stopIfUnused()
		return look()
	}
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs[dir] == nil {
		w.dirs[dir] = map[chan struct{}]bool{}
	}
	w.dirs[dir][c] = true
	return c, func() { w.leave(dir, c) }
}

// look is a join for when the system has no watch left.
func look() (changed <-chan struct{}, leave func()) {
	c, done := make(chan struct{}, 1), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(lookInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				tell(c)
			}
		}
	})
	return c, func() {
		close(done)
		running.Wait()
	}
}

func (w *watches) leave(dir string, c chan struct{}) {
	w.changing.Lock()
	defer w.changing.Unlock()
	w.mu.Lock()
	delete(w.dirs[dir], c)
	empty := len(w.dirs[dir]) == 0
	if empty {
		delete(w.dirs, dir)
	}
	w.mu.Unlock()
	if empty {
		_ = w.watcher.Remove(dir) // which may be gone
	}
	w.stopIfUnused()
}

// start makes a watcher if the system has one left. changing must be held.
func (w *watches) start() {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return
	}
	w.watcher, w.stopped, w.dirs = watcher, make(chan struct{}), map[string]map[chan struct{}]bool{}
	go w.forward(watcher, w.stopped)
}

// stopIfUnused ends the watcher when nobody is left. changing must be held.
func (w *watches) stopIfUnused() {
	w.mu.Lock()
	used := len(w.dirs) > 0
	w.mu.Unlock()
	if used || w.watcher == nil {
		return
	}
	_ = w.watcher.Close() // nothing was written
	<-w.stopped
	w.watcher = nil
}

// forward tells of what the watcher does, until that is closed.
func (w *watches) forward(watcher *fsnotify.Watcher, stopped chan<- struct{}) {
	defer close(stopped)
	for {
		select {
		case event, ok := <-watcher.Events:
			if !ok {
				return
			}
			w.tell(filepath.Dir(event.Name))
			w.tell(event.Name) // the directory itself
		case _, ok := <-watcher.Errors: // events may have been lost
			if !ok {
				return
			}
			w.tellAll()
		}
	}
}

func (w *watches) tell(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.dirs[dir] {
		tell(c)
	}
}

func (w *watches) tellAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, dir := range w.dirs {
		for c := range dir {
			tell(c)
		}
	}
}

// tell leaves one message in a channel.
func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
