package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// bind mounts source at a new directory or file, and unmounts it at the test's end.
func bind(t *testing.T, source, at string) {
	t.Helper()
	if err := syscall.Mount(source, at, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("needs the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(at, syscall.MNT_DETACH) })
}

// bury creates nested directories with the longest names that the kernel escapes, and moves a directory into the
// innermost one.
func bury(t *testing.T, dir, name string, levels int) {
	t.Helper()
	flags := syscall.O_RDONLY | syscall.O_DIRECTORY | syscall.O_CLOEXEC
	top := must.Get(syscall.Open(dir, flags, 0))(t)
	defer syscall.Close(top)
	at, err := syscall.Dup(top)
	spaces := strings.Repeat(" ", 255)
	for range levels {
		next := -1
		if err == nil {
			err = syscall.Mkdirat(at, spaces, 0o700)
		}
		if err == nil {
			next, err = syscall.Openat(at, spaces, flags, 0)
		}
		must.Do(t, err)
		_ = syscall.Close(at)
		at = next
	}
	defer syscall.Close(at)
	must.Do(t, syscall.Renameat(top, name, at, name))
}

// Exactly the mounts are found, wherever the mounted directory is moved and whatever its name is.
func TestPinsAreFoundWhereverTheirDirectoryIs(t *testing.T) {
	for _, name := range []string{"buried", "da\rta", "x\u2028y", "a b\tc\nd\\e"} {
		t.Run(name, func(t *testing.T) {
			top := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
			volume, pin, file, other := filepath.Join(top, "volume"), filepath.Join(top, "pins", "0"), filepath.Join(top, "pins", "1"), filepath.Join(top, "other")
			if err := errors.Join(os.MkdirAll(filepath.Join(volume, "data"), 0o700), os.MkdirAll(pin, 0o700), os.Mkdir(other, 0o700),
				os.WriteFile(filepath.Join(volume, "file"), nil, 0o600), os.WriteFile(file, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			bind(t, filepath.Join(volume, "data"), pin)
			bind(t, filepath.Join(volume, "file"), file)
			if name == "buried" {
				bury(t, volume, "data", 1200)
			} else if err := os.Rename(filepath.Join(volume, "data"), filepath.Join(volume, name)); err != nil {
				t.Fatal(err)
			}
			if points, err := Below(top); err != nil || !slices.Equal(points, []string{file, pin}) {
				t.Errorf("mounted: %q, %v, want %q", points, err, []string{file, pin})
			}
			for path, want := range map[string]bool{pin: true, file: true, other: false, volume: false, filepath.Join(volume, "file"): false} {
				if at, err := At(path); at != want || err != nil {
					t.Errorf("%s is a mount point: %t, %v, want %t", path, at, err, want)
				}
			}
		})
	}
}
