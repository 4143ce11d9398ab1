package start

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/device"
)

func TestWithEnv(t *testing.T) {
	a := device.Allocation{Env: map[string]string{"B": "device", "A": "device", "C": "device"}}
	got := withDevices(a, []env.Var{{Name: "Z", Value: "spec"}, {Name: "B", Value: "spec"}})
	want := []env.Var{{Name: "A", Value: "device"}, {Name: "C", Value: "device"}, {Name: "Z", Value: "spec"}, {Name: "B", Value: "spec"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("variables are %v, want %v", got, want)
	}
}

// Paths are compared after they are cleaned.
func TestMountsByPath(t *testing.T) {
	c := &v1.Container{Name: "app", VolumeMounts: []v1.VolumeMount{{MountPath: "/data/"}, {MountPath: "tmp"}}}
	m := container.Mounts{Mounts: []*runtimeapi.Mount{{ContainerPath: "/data"}, {ContainerPath: "/tmp/"}}}
	must.Do(t, checkMounts(c, m))
}

// C3: the highest attempt with a log counts, regardless of the order of the list.
func TestC3_AttemptsOfLogFiles(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, (LogFiles{}).MakeDirectory(dir, "app"))
	for _, name := range []string{"10.log", "9.log", "11.txt", "12.log.20260101-000000.gz", "x.log", "99999999999.log"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, "app", name), nil, 0o600))
	}
	if last, ok, err := (LogFiles{}).LastAttempt(dir, "app"); last != 12 || !ok || err != nil {
		t.Errorf("%d, %v, %v; want 12", last, ok, err)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "app", "12.log.20260101-000000.gz")))
	if last, ok, err := (LogFiles{}).LastAttempt(dir, "app"); last != 10 || !ok || err != nil {
		t.Errorf("%d, %v, %v; want 10", last, ok, err)
	}
	if _, ok, err := (LogFiles{}).LastAttempt(dir, "none"); ok || err != nil {
		t.Errorf("no logs: %v, %v", ok, err)
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	if _, _, err := (LogFiles{}).LastAttempt(dir, "file"); err == nil {
		t.Error("logs that cannot be read are none")
	}
	for _, name := range []string{"..", "a/b", ""} {
		if _, _, err := (LogFiles{}).LastAttempt(dir, name); err == nil {
			t.Errorf("logs of %q are read", name)
		}
		if err := (LogFiles{}).MakeDirectory(dir, name); err == nil {
			t.Errorf("a directory for %q is made", name)
		}
	}
}
