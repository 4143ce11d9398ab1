package csi_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/modules/csi"
	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// A PersistentVolume that has replaced one with the same name has another path. A pod does not get the directory of the
// old one, which is mounted for another pod, and the other pod keeps it.
func TestV14_AVolumeWithTheNameOfAnother(t *testing.T) {
	dir := needsMount(t)
	current := ""
	m := manage(t, csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Objects{
		Claim: func(_ context.Context, _, name string) (*v1.PersistentVolumeClaim, error) {
			c := claim(name, "disk-1")
			c.Status.Phase = v1.ClaimBound
			return c, nil
		},
		Volume: func(context.Context, string) (*v1.PersistentVolume, error) {
			pv := localVolume(filepath.Join(dir, current))
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: "data", UID: "uid-of-data"}
			return pv, nil
		},
	}})
	use := func(disk string, pod *v1.Pod) error {
		current = disk
		must.Do(t, os.MkdirAll(filepath.Join(dir, disk), 0o755))
		return m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], "")
	}
	first, second := podOf("a", "data"), podOf("b", "data")
	must.Do(t, use("old", first))
	if err := use("new", second); err == nil || !strings.Contains(err.Error(), "is still mounted from "+filepath.Join(dir, "old")) {
		t.Errorf("the second pod: %v, want an error that names the path", err)
	}
	if err := use("new", first); err != nil || !mountedFrom(t, dir, "a", "old") {
		t.Errorf("the first pod: %v, want that it keeps its volume", err)
	}
	must.Do(t, m.TearDown(t.Context(), "a", ""))
	awaitPlan(t, m, "") // the volume is unstaged
	if err := use("new", second); err != nil || !mountedFrom(t, dir, "b", "new") {
		t.Errorf("after the first pod: %v, want the new path", err)
	}
	must.Do(t, m.TearDown(t.Context(), "b", ""))
}

// A mount that an agent has left without a record is not taken for the volume.
func TestV14_AMountOfAnotherDirectory(t *testing.T) {
	dir := needsMount(t)
	other, disk, target := filepath.Join(dir, "other"), filepath.Join(dir, "disk"), filepath.Join(dir, "root/pods/a/volumes/kubernetes.io~local-volume/disk-1")
	for _, path := range []string{other, disk, target} {
		must.Do(t, os.MkdirAll(path, 0o755))
	}
	must.Do(t, syscall.Mount(other, target, "", syscall.MS_BIND, ""))
	m := manage(t, csi.Config{Root: filepath.Join(dir, "root"), Objects: csi.Static([]*v1.PersistentVolume{localVolume(disk)}, []*v1.PersistentVolumeClaim{claim("data", "disk-1")})})
	pod := podOf("a", "data")
	if err := m.SetUp(t.Context(), pod, &pod.Spec.Volumes[0], ""); err == nil || !strings.Contains(err.Error(), "another directory than "+disk) {
		t.Errorf("%v, want an error", err)
	}
	if err := m.TearDown(t.Context(), "a", ""); err != nil || isMountPoint(target) {
		t.Errorf("%v, want that nothing is mounted for the pod", err)
	}
}

// mountedFrom reports whether the volume of a pod is a directory below dir.
func mountedFrom(t *testing.T, dir, pod, disk string) bool {
	t.Helper()
	want := must.Get(os.Stat(filepath.Join(dir, disk)))(t)
	has, err := os.Stat(filepath.Join(dir, "root/pods", pod, "volumes/kubernetes.io~local-volume/disk-1"))
	return err == nil && os.SameFile(want, has)
}
