package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// quiet is how long a folder must not change before it is read. A program that writes a file in
	// place should finish within that time.
	quiet = 2 * time.Millisecond
	// patience is the maximum time to wait for that.
	patience = 20 * time.Millisecond
	// absence is the interval at which the agent checks whether a missing folder exists.
	absence = time.Second
)

// Run reads the folder and delivers its pods, and again after each change, until ctx ends. It
// returns nil. The snapshots report a folder that is missing or cannot be watched.
func (f *Folder) Run(ctx context.Context, deliver func(Snapshot)) error {
	r := folderRun{Folder: f, deliver: deliver}
	defer r.unwatch()
	defer f.learn()()
	for ctx.Err() == nil {
		r.rewatch()
		r.publish(r.scan(always))
		r.follow(ctx)
	}
	return nil
}

// learn decodes a specimen: the first manifest takes a hundred times as long as later ones, because the decoder
// prepares for the API's types, and a pod would wait for that. wait returns when it is done.
func (f *Folder) learn() (wait func()) {
	var group sync.WaitGroup
	group.Go(func() { f.decode("", []byte(specimen)) })
	return group.Wait
}

// specimen has most pods' fields.
const specimen = `
apiVersion: v1
kind: Pod
metadata: {name: specimen}
spec:
  containers: [{name: app, image: "registry.test/app:1", command: [run], env: [{name: A, value: b}]}]
`

func always(os.DirEntry) bool { return true }

// folderRun is a running Folder's state.
type folderRun struct {
	*Folder
	deliver func(Snapshot)
	watched *watch // nil if there is none
	// blind is the error that prevents a watch.
	blind error
	// missing means that the folder does not exist.
	missing   bool
	last      Snapshot
	delivered bool
}

// rewatch ensures that the current folder at the path is watched.
func (r *folderRun) rewatch() {
	if r.watched.stillOf(r.path) {
		return
	}
	r.unwatch()
	r.watched, r.blind = r.watch(r.path)
}

func (r *folderRun) unwatch() {
	r.watched.close()
	r.watched = nil
}

// publish delivers the objects unless they are unchanged.
func (r *folderRun) publish(err error) {
	r.missing = errors.Is(err, fs.ErrNotExist)
	s := r.snapshot(err)
	if err == nil && r.watched == nil && !r.absent() {
		s.Warnings = append(s.Warnings, fmt.Errorf("%s is read every %v only, it cannot be watched: %w", r.path, r.rescan, r.blind))
	}
	if r.delivered && !s.ConfigsChanged && same(s, r.last) {
		return
	}
	r.last, r.delivered = s, true
	r.deliver(s)
}

// absent reports whether the folder did not exist when it was to be read or watched. In that case it may have been
// created since.
func (r *folderRun) absent() bool {
	return r.missing || r.watched == nil && errors.Is(r.blind, fs.ErrNotExist)
}

func same(a, b Snapshot) bool {
	return slices.Equal(a.Pods, b.Pods) && a.Incomplete == b.Incomplete &&
		slices.EqualFunc(a.Errors, b.Errors, sameText) && slices.EqualFunc(a.Warnings, b.Warnings, sameText)
}

func sameText(a, b error) bool { return a.Error() == b.Error() }

// follow reads files as they change, until it is time to read them all.
func (r *folderRun) follow(ctx context.Context) {
	wait := r.rescan
	if r.absent() {
		wait = min(wait, absence)
	}
	rescan := time.NewTimer(wait)
	defer rescan.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-rescan.C:
			return
		case c := <-r.watched.changes():
			r.settle(ctx, &c)
			if c.all {
				r.unwatch() // the system may have ended it
				return
			}
			if len(c.removed) > 0 { // a removed file's pods stop, even if a new file has its name by now
				maps.DeleteFunc(r.files, func(name string, _ *manifestFile) bool { return c.removed[name] })
				r.publish(nil)
			}
			r.publish(r.scan(c.concerns))
		}
	}
}

// settle waits until changes pause for a moment. A file that was moved into place is complete, so
// it does not wait for that.
func (r *folderRun) settle(ctx context.Context, c *change) {
	done := time.NewTimer(patience)
	defer done.Stop()
	calm := time.NewTimer(quiet)
	defer calm.Stop()
	for !c.settled() {
		select {
		case <-ctx.Done():
			return
		case <-done.C:
			return
		case <-calm.C:
			return
		case more := <-r.watched.changes():
			c.add(more)
			calm.Reset(quiet)
		}
	}
}
