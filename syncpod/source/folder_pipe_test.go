//go:build unix

package source

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
)

// Opening a pipe waits for one who writes, for ever.
func TestFolderPassesOverPipes(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "a.yaml"), 0o600); err != nil {
		t.Skip(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("b.yaml", podText("b", "b:1"))
		ft.expect("b-node-1=b:1")
	})
}

// Reading /proc/kmsg waits for the kernel to say something, which may be never. It says to
// be an empty file, as this one does.
func TestFolderDoesNotReadFilesOfTheKernel(t *testing.T) {
	const version = "/proc/version"
	if info, err := os.Stat(version); err != nil || !info.Mode().IsRegular() || info.Size() != 0 {
		t.Skip("there is no such file: ", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(version, filepath.Join(dir, "a.yaml")); err != nil {
		t.Skip(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("b.yaml", podText("b", "b:1"))
		ft.expect("b-node-1=b:1 incomplete \nDIR/a.yaml: there is no object in it")
	})
}
