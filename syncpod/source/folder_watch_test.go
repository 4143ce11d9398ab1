package source

import (
	"errors"
	"reflect"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

func TestWatchGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watcher := &fsnotify.Watcher{Events: make(chan fsnotify.Event), Errors: make(chan error)}
		w := &watch{changed: make(chan change)}
		done := make(chan struct{})
		go w.forward(watcher, "/d", done)
		// If no goroutine reads the notifications, the system is not blocked, and no change is lost.
		for _, name := range []string{"/d/a", "/d/b", "/d/a"} {
			watcher.Events <- fsnotify.Event{Name: name, Op: fsnotify.Write}
		}
		if got, want := <-w.changed, (change{files: map[string]bool{"a": true, "b": true}, written: true}); !reflect.DeepEqual(got, want) {
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

// A file is waited for while it may be written, and not if it was moved into its
// place as a whole.
func TestFolderWaitsForTheWriter(t *testing.T) {
	create := func(name string) fsnotify.Event { return fsnotify.Event{Name: name, Op: fsnotify.Create} }
	rename := func(name string) fsnotify.Event { return fsnotify.Event{Name: name, Op: fsnotify.Rename} }
	for name, tc := range map[string]struct {
		events []fsnotify.Event
		want   time.Duration
	}{
		"written in place":                  {[]fsnotify.Event{create("/d/a")}, quiet},
		"moved":                             {[]fsnotify.Event{create("/d/.a"), rename("/d/.a"), create("/d/a")}, 0},
		"moved, and then written":           {[]fsnotify.Event{rename("/d/.a"), create("/d/a"), {Name: "/d/a", Op: fsnotify.Write}}, quiet},
		"moved, and another one is written": {[]fsnotify.Event{create("/d/b"), rename("/d/.a"), create("/d/a")}, quiet},
		"moved out":                         {[]fsnotify.Event{rename("/d/a")}, quiet},
		"a mounted ConfigMap":               {[]fsnotify.Event{rename("/d/..data_tmp"), create("/d/..data")}, quiet},
	} {
		if goruntime.GOOS != "linux" {
			tc.want = quiet
		}
		var c change
		var last fsnotify.Event
		for _, event := range tc.events {
			c.add(changeOf(event, last, "/d"))
			last = event
		}
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			(&folderRun{}).settle(t.Context(), &c)
			if took := time.Since(began); took != tc.want {
				t.Errorf("%s: it took %v until it was read, want %v", name, took, tc.want)
			}
		})
	}
}

// The notification of a moved file does not hide a file that is written later.
func TestFolderWaitsForTheWriterAfterAMove(t *testing.T) {
	var c change
	away := fsnotify.Event{Name: "/d/a", Op: fsnotify.Rename} // read already
	c.add(changeOf(fsnotify.Event{Name: "/d/b", Op: fsnotify.Create}, away, "/d"))
	if c.settled() {
		t.Error("a file is taken to be complete that may still be written")
	}
}
