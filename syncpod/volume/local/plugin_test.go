package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/volume"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// disks is a Plugin for claims. It waits until as many volumes are set up at a time as there are.
type disks struct {
	together sync.WaitGroup
	fails    map[string]error
	tornDown []types.UID
	stays    error
}

func (*disks) Provides(vol *v1.Volume) bool { return vol.PersistentVolumeClaim != nil }

func (d *disks) SetUp(_ context.Context, _ *v1.Pod, vol *v1.Volume, _ string) error {
	d.together.Done()
	d.together.Wait()
	return d.fails[vol.Name]
}

func (d *disks) Locate(_ *v1.Pod, vol *v1.Volume, dir string) (volume.Location, error) {
	switch vol.Name {
	case "relative":
		return volume.Location{Path: "mnt"}, nil
	case "raw":
		return volume.Location{Path: "/dev/sdz", Device: true, ReadOnly: true}, nil
	}
	return volume.Location{Path: filepath.Join(dir, "volumes/example.com~disk", vol.Name, "mount"), ReadOnly: vol.PersistentVolumeClaim.ReadOnly}, d.fails[vol.Name]
}

func (d *disks) TearDown(_ context.Context, pod types.UID, _ string) error {
	d.tornDown = append(d.tornDown, pod)
	return d.stays
}

func claim(name string) v1.Volume {
	return named(name, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

func TestPluginMountsItsVolumesAtTheSameTime(t *testing.T) {
	broken := errors.New("the disk is broken")
	d := &disks{fails: map[string]error{"b": broken}}
	d.together.Add(2) // one after the other would wait for ever
	v := newVolumes(t, local.Config{Plugin: d, Unprivileged: true})
	err := v.SetUp(t.Context(), podWith(claim("a"), claim("b"), named("tmp", emptyDir())), t.TempDir())
	var failed *volume.Error
	if !errors.As(err, &failed) || failed.Volume != "b" || !errors.Is(err, broken) || failed.Kind != "persistentVolumeClaim" {
		t.Errorf("%v, want the error of b alone", err)
	}
}

func TestContainersGetTheVolumesOfAPlugin(t *testing.T) {
	dir := t.TempDir()
	v := newVolumes(t, local.Config{Plugin: &disks{}, Unprivileged: true})
	readOnly := claim("shared")
	readOnly.PersistentVolumeClaim.ReadOnly = true
	pod := podWith(claim("data"), readOnly, claim("raw"), claim("relative"), named("tmp", emptyDir()))
	c := &v1.Container{Name: "app",
		VolumeMounts:  []v1.VolumeMount{{Name: "data", MountPath: "/data"}, {Name: "shared", MountPath: "/shared"}},
		VolumeDevices: []v1.VolumeDevice{{Name: "raw", DevicePath: "/dev/disk"}},
	}
	got, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: c}, dir)
	if err != nil || len(got.Mounts) != 2 || len(got.Devices) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if m := got.Mounts[0]; m.HostPath != filepath.Join(dir, "volumes/example.com~disk/data/mount") || m.Readonly {
		t.Errorf("%v, want the plugin's path, for writing", m)
	}
	if m := got.Mounts[1]; !m.Readonly {
		t.Errorf("%v, want a read-only mount", m)
	}
	if d := got.Devices[0]; d.HostPath != "/dev/sdz" || d.ContainerPath != "/dev/disk" || d.Permissions != "r" {
		t.Errorf("%v, want a device for reading", d)
	}
	for _, c := range []v1.Container{
		{VolumeMounts: []v1.VolumeMount{{Name: "raw", MountPath: "/raw"}}},
		{VolumeMounts: []v1.VolumeMount{{Name: "relative", MountPath: "/r"}}},
		{VolumeDevices: []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}},
		{VolumeDevices: []v1.VolumeDevice{{Name: "tmp", DevicePath: "/dev/tmp"}}},
		{VolumeDevices: []v1.VolumeDevice{{Name: "none", DevicePath: "/dev/none"}}},
	} {
		if got, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &c}, dir); err == nil {
			t.Errorf("%v %v: %v, want an error", c.VolumeMounts, c.VolumeDevices, got)
		}
	}
}

// A file below the directory of a volume that the agent does not create may be data of a volume whose mount the agent does
// not see: the file is not deleted, and the directory of the pod stays (kubernetes #72257, #74650, #133399).
func TestV1_FilesOfForeignVolumesStay(t *testing.T) {
	for name, config := range map[string]local.Config{"with its plugin": {Plugin: &disks{}}, "without a plugin": {}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			data := filepath.Join(dir, "volumes/example.com~disk/data/mount/table.db")
			empty := filepath.Join(dir, "volumes/example.com~disk/empty/mount")
			directory := filepath.Join(dir, "volumes/example.com~disk/deep/mount/directory")
			for _, make := range []string{filepath.Dir(data), empty, directory} {
				must.Do(t, os.MkdirAll(make, 0o750))
			}
			must.Do(t, os.WriteFile(data, []byte("rows"), 0o600))
			v := newVolumes(t, config)
			if err := v.TearDown(t.Context(), "uid", dir); err == nil {
				t.Error("the pod's directory may be removed")
			}
			if text, err := os.ReadFile(data); string(text) != "rows" {
				t.Errorf("the data: %q, %v", text, err)
			}
			must.Get(os.Stat(directory))(t)
			if _, err := os.Stat(filepath.Dir(empty)); err == nil {
				t.Error("the directories of a volume that was unmounted are left")
			}
			must.Do(t, errors.Join(os.Remove(data), os.Remove(directory), v.TearDown(t.Context(), "uid", dir)))
		})
	}
}

// A directory that the agent did not make may be a volume full of files: a bounded number of names is read in one call, and
// the next call continues.
func TestForeignVolumesAreReadInParts(t *testing.T) {
	dir := t.TempDir()
	disk := filepath.Join(dir, "volumes/example.com~disk")
	for i := range 1500 {
		must.Do(t, os.MkdirAll(filepath.Join(disk, strconv.Itoa(i)), 0o750))
	}
	v := newVolumes(t, local.Config{})
	if err := v.TearDown(t.Context(), "uid", dir); err == nil {
		t.Error("the pod's directory may be removed")
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1500-1024 {
		t.Errorf("%d directories are left, %v, want %d", len(left), err, 1500-1024)
	}
	must.Do(t, v.TearDown(t.Context(), "uid", dir))
}

// A pod's directory stays until its volumes are unmounted.
func TestTearDownFailsWhileAVolumeStaysMounted(t *testing.T) {
	d := &disks{stays: errors.New("busy")}
	v := newVolumes(t, local.Config{Plugin: d})
	if err := v.TearDown(t.Context(), "uid", t.TempDir()); !errors.Is(err, d.stays) || !slices.Equal(d.tornDown, []types.UID{"uid"}) {
		t.Errorf("%v for %v, want the plugin's error", err, d.tornDown)
	}
}
