//go:build unix

package loop

import (
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
