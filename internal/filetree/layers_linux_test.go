package filetree_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// overlay mounts an overlay with its layers on two file systems in memory, so that its files have
// other devices than its directories. It returns where the overlay is.
func overlay(t *testing.T, prepare func(lower string)) (at string) {
	t.Helper()
	dir := t.TempDir()
	mount := func(source, at, kind, options string) {
		t.Helper()
		if err := syscall.Mount(source, at, kind, 0, options); err != nil {
			t.Skipf("needs the right to mount: %v", err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
	}
	lower, layer, at := filepath.Join(dir, "lower"), filepath.Join(dir, "layer"), filepath.Join(dir, "at")
	must.Do(t, errors.Join(os.Mkdir(lower, 0o700), os.Mkdir(layer, 0o700), os.Mkdir(at, 0o700)))
	mount("lower", lower, "tmpfs", "size=4m")
	mount("layer", layer, "tmpfs", "size=4m")
	upper, work := filepath.Join(layer, "upper"), filepath.Join(layer, "work")
	must.Do(t, errors.Join(os.Mkdir(upper, 0o700), os.Mkdir(work, 0o700)))
	prepare(lower)
	mount("overlay", at, "overlay", "lowerdir="+lower+",upperdir="+upper+",workdir="+work+",redirect_dir=off,xino=off")
	return at
}

func device(t *testing.T, name string) uint64 {
	t.Helper()
	var stat syscall.Stat_t
	must.Do(t, syscall.Lstat(name, &stat))
	return uint64(stat.Dev)
}

// Another device is not another mount: nothing is hidden by it, and a file that is mounted is skipped.
func TestWalkOfSeveralDevices(t *testing.T) {
	at := overlay(t, func(string) {})
	volume, source := filepath.Join(at, "volume"), filepath.Join(t.TempDir(), "source")
	file, mounted := filepath.Join(volume, "d", "file"), filepath.Join(volume, "mounted")
	must.Do(t, errors.Join(
		os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, make([]byte, 10_000), 0o600),
		os.WriteFile(source, nil, 0o600), os.WriteFile(mounted, nil, 0o600),
		syscall.Mount(source, mounted, "", syscall.MS_BIND, ""),
	))
	t.Cleanup(func() { _ = syscall.Unmount(mounted, 0) })
	if device(t, volume) == device(t, file) {
		t.Skip("this kernel reports one device for an overlay")
	}
	if got, want := names(t, volume), []string{"0 .", "1 d", "2 file"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

// A directory that cannot be moved to the top is emptied in place, and so are the directories in it.
func TestEmptyWhereDirectoriesCannotBeMoved(t *testing.T) {
	at := overlay(t, func(lower string) {
		for _, dir := range []string{"volume/a/b/c", "volume/a/b2", "volume/d/.removed/x"} {
			if err := errors.Join(os.MkdirAll(filepath.Join(lower, dir), 0o700), os.WriteFile(filepath.Join(lower, dir, "file"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	})
	volume := filepath.Join(at, "volume")
	must.Do(t, os.MkdirAll(filepath.Join(volume, "a", "b", "new", "deep", "er"), 0o700))
	if err := os.Rename(filepath.Join(volume, "a"), filepath.Join(volume, "z")); !errors.Is(err, syscall.EXDEV) {
		t.Skipf("the overlay moves directories of a lower layer: %v", err)
	}
	before := openFiles(t)
	must.Do(t, empty(t.Context(), volume))
	isEmpty(t, volume)
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors before and %d after", before, after)
	}
}
