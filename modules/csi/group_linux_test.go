package csi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// While a container swaps files during setOwnership, no file gets the mode of another one: none becomes setuid.
func TestGroupIsGivenWhileFilesAreSwapped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files are given to another group by root alone")
	}
	dir := t.TempDir()
	setuid, plain, third := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	must.Do(t, errors.Join(os.WriteFile(setuid, nil, 0o600), os.WriteFile(plain, nil, 0o600), os.Chmod(setuid, fs.ModeSetuid|0o755), os.Chmod(plain, 0o755)))
	watched := must.Get(os.Open(plain))(t)
	defer watched.Close()
	other := must.Get(os.Open(setuid))(t)
	defer other.Close()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	var done atomic.Bool
	swapped := make(chan error)
	go func() {
		var err error
		for err == nil && !done.Load() {
			for _, r := range [][2]string{{setuid, third}, {plain, setuid}, {third, plain}} {
				err = errors.Join(err, os.Rename(r[0], r[1]))
			}
		}
		swapped <- err
	}()
	g := ownership{ctx: t.Context(), group: 4711}
	for range 5000 {
		if err := other.Chmod(fs.ModeSetuid | 0o755); err != nil { // a swap may have removed the bit
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			if err := g.change(root, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
		}
		if info, err := watched.Stat(); err != nil || info.Mode()&fs.ModeSetuid != 0 {
			t.Fatalf("a file that was not setuid is %v, %v", info.Mode(), err)
		}
	}
	done.Store(true)
	if err := <-swapped; err != nil {
		t.Error(err)
	}
}

// A container that swaps a directory for a FIFO during setOwnership does not make the agent wait for a writer.
func TestGroupIsGivenWhileADirectoryIsSwapped(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("files are given to another group by root alone")
	}
	dir := t.TempDir()
	swapped, fifo, third := filepath.Join(dir, "d"), filepath.Join(dir, "fifo"), filepath.Join(dir, "third")
	must.Do(t, errors.Join(os.Mkdir(swapped, 0o700), syscall.Mkfifo(fifo, 0o600)))
	root := must.Get(os.OpenRoot(dir))(t)
	mount := must.Get(mountOf(root))(t)
	var done atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		for !done.Load() {
			for _, rename := range [][2]string{{swapped, third}, {fifo, swapped}, {swapped, fifo}, {third, swapped}} {
				_ = os.Rename(rename[0], rename[1])
			}
		}
	})
	returned := make(chan struct{})
	running.Go(func() {
		defer close(returned)
		for range 20_000 {
			_ = ownership{ctx: t.Context(), group: 4711, mount: mount}.changeContents(root, 0) // a swapped file may no longer exist
		}
	})
	for waiting := true; waiting; {
		select {
		case <-returned:
			waiting = false
		case <-time.After(time.Minute):
			t.Error("setOwnership waits for a writer of the FIFO")
			for _, name := range []string{swapped, fifo, third} { // releases the reader
				if f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
					f.Close()
				}
			}
		}
	}
	done.Store(true)
	running.Wait()
}
