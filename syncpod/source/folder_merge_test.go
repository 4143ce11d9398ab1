package source

import (
	"errors"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// Of two files that name one pod that counts which counted before, so that a new file
// stops nothing that runs; of two that are new the first by name.
func TestFolderTwoFilesOfOneName(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("b.yaml", podText("z", "z:1")+"---\n"+podText("x", "b:1"))
		ft.expect("z-node-1=z:1 x-node-1=b:1")
		ft.write("a.yaml", podText("x", "a:1"))
		refused := " \nDIR/a.yaml: document 1: Pod default/x-node-1: another of that name is in DIR/b.yaml, document 2, which counts"
		ft.expect("z-node-1=z:1 x-node-1=b:1" + refused)
		ft.write("b.yaml", podText("z", "z:1")+"---\n"+podText("x", "b:2"))
		ft.expect("z-node-1=z:1 x-node-1=b:2" + refused)
		ft.write("b.yaml", podText("z", "z:1"))
		ft.expect("x-node-1=a:1 z-node-1=z:1")
		ft.write("0.yaml", podText("w", "0:1"))
		ft.write("1.yaml", podText("w", "1:1"))
		ft.expect("w-node-1=0:1 x-node-1=a:1 z-node-1=z:1 \nDIR/1.yaml: document 1: Pod default/w-node-1: another of that name is in DIR/0.yaml, document 1, which counts")
		if got, _ := ft.got.last(); kept(got.Errors[0]) {
			t.Error("the error claims an earlier version of a file that was never read")
		}
	})
}

// The same holds in one file: the accepted pod stays accepted, regardless of the documents before it.
func TestFolderOneFileTwoPodsOfOneName(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("a.yaml", podText("x", "a:1"))
		ft.expect("x-node-1=a:1")
		ft.write("a.yaml", podText("x", "a:2")+"---\n"+podText("x", "a:1"))
		ft.expect("x-node-1=a:1 \nDIR/a.yaml: document 1: Pod default/x-node-1: another of that name is in DIR/a.yaml, document 2, which counts")
		ft.write("a.yaml", podText("x", "a:3")+"---\n"+podText("x", "a:4"))
		ft.expect("x-node-1=a:3 \nDIR/a.yaml: document 2: Pod default/x-node-1: another of that name is in DIR/a.yaml, document 1, which counts")
	})
}

func kept(err error) bool {
	e, ok := errors.AsType[*ManifestError](err)
	return ok && e.Kept
}

// An error states whether its pod's earlier version stays in effect.
func TestFolderReportsKeptVersions(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ft := runFolder(t, dir)
		ft.write("a.yaml", podText("a", "a:1")+"---\n"+podText("b", ""))
		ft.write("b.yaml", "kind: {")
		want := func(want ...bool) {
			t.Helper()
			got, _ := ft.got.last()
			var all []bool
			for _, err := range got.Errors {
				all = append(all, kept(err))
			}
			if !slices.Equal(all, want) {
				t.Errorf("kept: %v, want %v of %v", all, want, got.Errors)
			}
		}
		time.Sleep(time.Minute)
		want(false, false)
		ft.write("a.yaml", podText("a", "")+"---\n"+podText("b", ""))
		time.Sleep(time.Minute)
		want(true, false, false)
		ft.write("a.yaml", "kind: {")
		time.Sleep(time.Minute)
		want(true, false)
		must.Do(t, os.Rename(dir, dir+".away"))
		time.Sleep(time.Minute)
		want(true, true, false)
	})
}
