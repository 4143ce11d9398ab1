package loop

import (
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/fsnotify/fsnotify"
)

func TestWatchGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		w := &watch{changed: make(chan change)}
		done := make(chan struct{})
		go w.forward(watcher, "/d", done)
		// Nobody reads: the system is not held up, and nothing is lost.
		for _, name := range []string{"/d/a", "/d/b", "/d/a"} {
			watcher.Events <- fsnotify.Event{Name: name, Op: fsnotify.Write}
		}
		if got, want := <-w.changed, (change{files: map[string]bool{"a": true, "b": true}}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		watcher.Events <- fsnotify.Event{Name: "/d/..data", Op: fsnotify.Create}
		if got, want := <-w.changed, (change{links: true}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		watcher.Errors <- errors.New("events were lost")
		if got, want := <-w.changed, (change{all: true}); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
		watcher.Events <- fsnotify.Event{Name: "/d", Op: fsnotify.Remove}
		close(done)
	})
}
