package poddir_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/poddir"
)

func newDirs(t *testing.T, c poddir.Config) *poddir.Dirs {
	t.Helper()
	if c.Root == "" {
		c.Root = t.TempDir()
	}
	d := must.Get(poddir.New(c))(t)
	return d
}

func webPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "u-1"},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "app", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: v1.TerminationMessageReadFile,
		}}},
	}
}

func request(pod *v1.Pod, attempt uint32, ips ...string) container.MountRequest {
	return container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], Attempt: attempt, PodIPs: ips}
}

// mountsOf returns the container's mounts by the path they have in it.
func mountsOf(t *testing.T, d *poddir.Dirs, req container.MountRequest) map[string]*runtimeapi.Mount {
	t.Helper()
	m := must.Get(d.Mounts(t.Context(), req))(t)
	byPath := map[string]*runtimeapi.Mount{}
	for _, mount := range m.Mounts {
		byPath[mount.GetContainerPath()] = mount
	}
	if len(byPath) != len(m.Mounts) {
		t.Errorf("two mounts at one path: %v", m.Mounts)
	}
	return byPath
}

func modeOf(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info := must.Get(os.Lstat(path))(t)
	return info.Mode()
}

// wantOurs checks a directory that no container sees: 0750, or less with a
// strict umask.
func wantOurs(t *testing.T, path string) {
	t.Helper()
	if mode := modeOf(t, path); !mode.IsDir() || mode.Perm()&^0o750 != 0 || mode.Perm()&0o700 != 0o700 {
		t.Errorf("%s is %v, want a directory with 0750", path, mode)
	}
}

func TestNewNamesTheMissingField(t *testing.T) {
	for _, tt := range []struct {
		config poddir.Config
		want   string
	}{
		{poddir.Config{}, "Config.Root is missing"},
		{poddir.Config{Root: "var/lib/agent"}, "not an absolute path"},
	} {
		if _, err := poddir.New(tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v): %v, want %q", tt.config, err, tt.want)
		}
	}
}

func TestNewTouchesNoFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "agent")
	d := newDirs(t, poddir.Config{Root: root})
	if pods, err := d.Pods(); err != nil || len(pods) > 0 {
		t.Errorf("pods %q, %v, want no pods and no error", pods, err)
	}
	if _, err := os.Lstat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New has made %s: %v", root, err)
	}
}

func TestPreparePod(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root, ClusterDomain: "cluster.local"})
	for range 2 {
		in, err := d.PreparePod(t.Context(), webPod())
		if err != nil || in.ClusterDomain != "cluster.local" {
			t.Fatalf("%+v, %v, want %q and no error", in, err, "cluster.local")
		}
	}
	for _, dir := range []string{"pods/u-1", "pods/u-1/volumes", "pods/u-1/plugins"} {
		wantOurs(t, filepath.Join(root, dir))
	}
}

func TestLayout(t *testing.T) {
	root := t.TempDir()
	d := newDirs(t, poddir.Config{Root: root})
	pod := webPod()
	before := pod.DeepCopy()
	got := mountsOf(t, d, request(pod, 3, "10.0.0.7"))
	for path, want := range map[string]*runtimeapi.Mount{
		"/etc/hosts":           {ContainerPath: "/etc/hosts", HostPath: filepath.Join(root, "pods/u-1/containers/app/etc-hosts"), SelinuxRelabel: true},
		"/dev/termination-log": {ContainerPath: "/dev/termination-log", HostPath: filepath.Join(root, "pods/u-1/containers/app/00000003"), SelinuxRelabel: true},
	} {
		if !proto.Equal(got[path], want) {
			t.Errorf("%s: %v, want %v", path, got[path], want)
		}
	}
	for path, want := range map[string]fs.FileMode{
		"pods/u-1/etc-hosts":                0o644,
		"pods/u-1/containers/app/etc-hosts": 0o644,
		"pods/u-1/containers/app/00000003":  0o666,
	} {
		if mode := modeOf(t, filepath.Join(root, path)); mode != want {
			t.Errorf("%s is %v, want %v", path, mode, want)
		}
	}
	wantOurs(t, filepath.Join(root, "pods/u-1/containers"))
	wantOurs(t, filepath.Join(root, "pods/u-1/containers/app"))
	if !reflect.DeepEqual(pod, before) {
		t.Error("the pod was written to")
	}
}

func TestNothingLeadsOutOfRoot(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "../x", "a/b", "/etc", `a\b`, "a\x00"} {
		top := t.TempDir()
		d := newDirs(t, poddir.Config{Root: filepath.Join(top, "root")})
		pod := webPod()
		pod.UID = types.UID(bad)
		_, prepareErr := d.PreparePod(t.Context(), pod)
		_, mountsErr := d.Mounts(t.Context(), request(pod, 0, "10.0.0.7"))
		cleanErr := d.RemovePod(t.Context(), pod.UID)
		for _, err := range []error{prepareErr, mountsErr, cleanErr} {
			if err == nil || !strings.Contains(err.Error(), "metadata.uid") {
				t.Errorf("UID %q: %v, want an error that names the field", bad, err)
			}
		}
		if entries, _ := os.ReadDir(top); len(entries) > 0 {
			t.Errorf("UID %q has made %v", bad, entries)
		}
		pod = webPod()
		pod.Spec.Containers[0].Name = bad
		if _, err := d.Mounts(t.Context(), request(pod, 0)); err == nil || !strings.Contains(err.Error(), "container name") {
			t.Errorf("container %q: %v, want an error and %q in it", bad, err, "container name")
		}
		pod.Spec.Containers[0].TerminationMessagePath = "" // /etc/hosts alone
		if _, err := d.Mounts(t.Context(), request(pod, 0, "10.0.0.7")); err == nil || !strings.Contains(err.Error(), "container name") {
			t.Errorf("container %q: %v, want an error and %q in it", bad, err, "container name")
		}
	}
}

func TestMountsOfNothing(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	for name, req := range map[string]container.MountRequest{
		"no pod":       {Container: &pod.Spec.Containers[0]},
		"no container": {Pod: pod},
	} {
		if _, err := d.Mounts(t.Context(), req); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, prepareErr := d.PreparePod(t.Context(), nil)
	if prepareErr == nil {
		t.Error("a nil pod is no error")
	}
	if message, err := d.TerminationMessage(nil, nil); message != "" || err != nil {
		t.Errorf("message of nothing: %q, %v", message, err)
	}
}

func TestVolumesWithoutAProvider(t *testing.T) {
	d := newDirs(t, poddir.Config{})
	pod := webPod()
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "data", MountPath: "/data"}}
	if _, err := d.Mounts(t.Context(), request(pod, 0)); err == nil || !strings.Contains(err.Error(), `volume "data"`) {
		t.Errorf("mount: %v, want the volume named", err)
	}
	pod = webPod()
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/xvda"}}
	if _, err := d.Mounts(t.Context(), request(pod, 0)); err == nil || !strings.Contains(err.Error(), `volume "disk"`) {
		t.Errorf("device: %v, want the volume named", err)
	}
}

// volumes records its calls.
type volumes struct {
	calls    []string
	tearDown error
	next     time.Time
}

func (v *volumes) SetUp(_ context.Context, pod *v1.Pod, dir string) error {
	v.calls = append(v.calls, "set up "+string(pod.UID)+" in "+filepath.Base(dir))
	return nil
}

func (v *volumes) Mounts(_ context.Context, req container.MountRequest, dir string) (container.Mounts, error) {
	v.calls = append(v.calls, "mount into "+req.Container.Name+" from "+filepath.Base(dir))
	return container.Mounts{Mounts: []*runtimeapi.Mount{{ContainerPath: "/data"}}}, nil
}

func (v *volumes) TearDown(_ context.Context, uid types.UID, dir string) error {
	v.calls = append(v.calls, "tear down "+string(uid)+" in "+filepath.Base(dir))
	return v.tearDown
}

func TestVolumesComeFirst(t *testing.T) {
	v := &volumes{tearDown: errors.New("busy")}
	d := newDirs(t, poddir.Config{Volumes: v})
	pod := webPod()
	must.Get(d.PreparePod(t.Context(), pod))(t)
	m, err := d.Mounts(t.Context(), request(pod, 0, "10.0.0.7"))
	if err != nil || len(m.Mounts) != 3 || m.Mounts[0].ContainerPath != "/data" {
		t.Errorf("%v, %v, want the volume, /etc/hosts and the message", m.Mounts, err)
	}
	if err := d.RemovePod(t.Context(), pod.UID); !errors.Is(err, v.tearDown) {
		t.Errorf("clean with a busy volume: %v", err)
	}
	if pods, _ := d.Pods(); len(pods) != 1 {
		t.Error("the directory was removed although a volume was not torn down")
	}
	v.tearDown = nil
	must.Do(t, d.RemovePod(t.Context(), pod.UID))
	want := []string{"set up u-1 in u-1", "mount into app from u-1", "tear down u-1 in u-1", "tear down u-1 in u-1"}
	if !slices.Equal(v.calls, want) {
		t.Errorf("%q, want %q", v.calls, want)
	}
}

func (v *volumes) Refresh(_ context.Context, pod *v1.Pod, dir string) (time.Time, error) {
	v.calls = append(v.calls, "refresh "+string(pod.UID)+" in "+filepath.Base(dir))
	return v.next, v.tearDown
}

func TestRefreshPod(t *testing.T) {
	if next, err := newDirs(t, poddir.Config{}).RefreshPod(t.Context(), webPod()); err != nil || !next.IsZero() {
		t.Errorf("without volumes: again at %v, %v", next, err)
	}
	r := &volumes{next: time.Now(), tearDown: errors.New("not found")}
	d := newDirs(t, poddir.Config{Volumes: r})
	if next, err := d.RefreshPod(t.Context(), webPod()); !errors.Is(err, r.tearDown) || next != r.next {
		t.Errorf("again at %v, %v, want error %v and %v", next, err, r.tearDown, r.next)
	}
	if want := []string{"refresh u-1 in u-1"}; !slices.Equal(r.calls, want) {
		t.Errorf("%q, want %q", r.calls, want)
	}
	outside := webPod()
	outside.UID = "../x"
	for _, pod := range []*v1.Pod{nil, outside} {
		if _, err := d.RefreshPod(t.Context(), pod); err == nil || len(r.calls) != 1 {
			t.Errorf("%v was refreshed: %q", pod, r.calls)
		}
	}
}
