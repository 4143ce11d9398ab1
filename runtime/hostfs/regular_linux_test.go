package hostfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/hostfs"
)

// No process writes to the FIFO: opening it would wait for ever. A device that is opened acts.
func TestNothingElseIsOpened(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	names := []string{"pipe"}
	if err := syscall.Mknod(filepath.Join(dir, "device"), syscall.S_IFCHR|0o600, 5<<8|1); err == nil {
		names = append(names, "device")
	}
	for _, name := range names {
		if _, err := hostfs.Read(root, name, 100); !errors.Is(err, hostfs.ErrNotRegular) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The owner of a file, such as root in a container, may hold a lease on it. Then an open of the file waits for the end of
// the lease, 45 s each time.
func TestLeasedFileIsNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	file := must.Get(os.Create(filepath.Join(dir, "leased")))(t)
	defer file.Close()
	const setLease = 1024 // F_SETLEASE of fcntl(2)
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, file.Fd(), setLease, syscall.F_WRLCK); errno != 0 {
		t.Skipf("the file system of %s has no leases: %v", dir, errno)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := hostfs.Read(root, "leased", 100)
		answer <- err
	}()
	select {
	case err := <-answer:
		if !errors.Is(err, syscall.EAGAIN) {
			t.Errorf("%v, want %v", err, syscall.EAGAIN)
		}
	case <-time.After(20 * time.Second): // less than /proc/sys/fs/lease-break-time
		t.Error("the read waits for the end of the lease")
	}
}

// A process that swaps the file for a FIFO and a link as fast as it can is no reason to wait or to
// read elsewhere.
func TestReadWhileTheFileIsSwapped(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	root := must.Get(os.OpenRoot(dir))(t)
	defer root.Close()
	name := filepath.Join(dir, "name")
	if err := errors.Join(os.WriteFile(outside, []byte("secret"), 0o600), os.WriteFile(filepath.Join(dir, "file"), []byte("12345"), 0o600),
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), os.Symlink(outside, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var flipping sync.WaitGroup
	flipping.Go(func() {
		for {
			for _, kind := range []string{"file", "pipe", "link"} {
				select {
				case <-done:
					return
				default:
				}
				_ = os.Remove(name)
				_ = os.Link(filepath.Join(dir, kind), name)
			}
		}
	})
	for range 3000 {
		if text, err := hostfs.Read(root, "name", 100); err == nil && string(text) != "12345" {
			t.Errorf("read %q", text)
		}
	}
	close(done)
	flipping.Wait()
}
