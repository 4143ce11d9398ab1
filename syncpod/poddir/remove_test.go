package poddir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/poddir"
)

func TestRemovePod(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root})
	pod := webPod()
	mountsOf(t, d, request(pod, 0, "10.0.0.7"))
	must.Get(d.PreparePod(t.Context(), pod))(t)
	for range 2 {
		must.Do(t, d.RemovePod(t.Context(), pod.UID))
	}
	if _, err := os.Lstat(filepath.Join(root, "pods/u-1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

func TestPodsListsPodsWithADirectory(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root})
	for _, uid := range []types.UID{"u-2", "u-10", "u-1"} {
		pod := webPod()
		pod.UID = uid
		must.Get(d.PreparePod(t.Context(), pod))(t)
	}
	pods := filepath.Join(root, "pods")
	if err := errors.Join(os.WriteFile(filepath.Join(pods, "README"), nil, 0o600), os.Symlink(pods, filepath.Join(pods, "link"))); err != nil {
		t.Fatal(err)
	}
	got, err := d.Pods()
	if want := []types.UID{"u-1", "u-10", "u-2"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if d.RemovePod(t.Context(), "README") == nil || d.RemovePod(t.Context(), "link") == nil {
		t.Error("a file or link was removed as a pod's directory")
	}
	if again, err := d.Pods(); err != nil || !slices.Equal(again, got) {
		t.Errorf("%q, %v are left, want %q", again, err, got)
	}
	for _, uid := range got {
		if err := d.RemovePod(t.Context(), uid); err != nil {
			t.Error(err)
		}
	}
	if got, err := d.Pods(); err != nil || len(got) > 0 {
		t.Errorf("after all are removed: %q, %v", got, err)
	}
}

// planted creates hostile files that a container can leave in a volume, next to files that must
// not be removed.
func planted(t *testing.T, volume, outside string) {
	t.Helper()
	deep := filepath.Join(volume, "deep")
	must.Do(t, errors.Join(
		os.MkdirAll(filepath.Join(outside, "dir"), 0o755),
		os.WriteFile(filepath.Join(outside, "dir", "file"), []byte("kept"), 0o600),
		os.MkdirAll(deep, 0o777),
		os.Symlink(outside, filepath.Join(volume, "absolute")),
		os.Symlink("../../../../../outside", filepath.Join(volume, "relative")),
		os.Symlink("..", filepath.Join(deep, "loop")),
		os.Symlink("nowhere", filepath.Join(deep, "dangling")),
		os.WriteFile(filepath.Join(deep, "file"), nil, 0),
		os.Link(filepath.Join(outside, "dir", "file"), filepath.Join(deep, "hard")),
	))
}

func TestRemovalFollowsNoLink(t *testing.T) {
	top := t.TempDir()
	outside := filepath.Join(top, "outside")
	d := newDirs(t, poddir.Config{Root: filepath.Join(top, "root")})
	planted(t, filepath.Join(top, "root/pods/u-1/volumes/kubernetes.io~empty-dir/data"), outside)
	// A removal that was cut short has left this.
	must.Do(t, os.MkdirAll(filepath.Join(top, "root/pods/u-1/.removed/0/x"), 0o750))
	must.Do(t, d.RemovePod(t.Context(), "u-1"))
	if content, err := os.ReadFile(filepath.Join(outside, "dir", "file")); err != nil || string(content) != "kept" {
		t.Errorf("the file outside: %q, %v", content, err)
	}
	if pods, _ := d.Pods(); len(pods) > 0 {
		t.Errorf("%q are left", pods)
	}
}

// However deep, and however many: one directory is open at a time.
func TestRemovalOfDeepAndWideTrees(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "pods/u-1/volumes/data")
	must.Do(t, os.MkdirAll(dir, 0o750))
	at := must.Get(os.OpenRoot(dir))(t)
	long := strings.Repeat("d", 200)
	for range 60 { // longer than any path may be
		must.Do(t, at.Mkdir(long, 0o700))
		below, err := at.OpenRoot(long)
		at.Close()
		must.Do(t, err)
		at = below
	}
	at.Close()
	wide := must.Get(os.OpenRoot(dir))(t)
	defer wide.Close()
	for i := range 1200 { // more than are read at once
		must.Do(t, wide.WriteFile(fmt.Sprintf("f%d", i), nil, 0o600))
	}
	d := newDirs(t, poddir.Config{Root: root})
	must.Do(t, d.RemovePod(t.Context(), "u-1"))
}

func TestRemovalEndsWithItsContext(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	mountsOf(t, d, request(pod, 0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.RemovePod(ctx, pod.UID); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	must.Do(t, d.RemovePod(t.Context(), pod.UID))
}
