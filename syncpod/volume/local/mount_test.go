package local_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// Whether mounts can be read-only recursively depends on the handler that the pod runs under.
func TestRecursiveReadOnlyOfHandlers(t *testing.T) {
	pod, dir := podWith(named("vol", emptyDir())), t.TempDir()
	v := newVolumes(t, local.Config{RecursiveReadOnly: []string{"", "runc"}, Unprivileged: true})
	setUp(t, v, pod, dir)
	for handler, want := range map[string]bool{"": true, "runc": true, "gvisor": false} {
		for _, mode := range []v1.RecursiveReadOnlyMode{v1.RecursiveReadOnlyEnabled, v1.RecursiveReadOnlyIfPossible} {
			pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "vol", MountPath: "/data", ReadOnly: true, RecursiveReadOnly: &mode}}
			got, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], RuntimeHandler: handler}, dir)
			switch {
			case err != nil && (want || mode == v1.RecursiveReadOnlyIfPossible):
				t.Errorf("%q, %s: %v", handler, mode, err)
			case err == nil && got.Mounts[0].RecursiveReadOnly != want:
				t.Errorf("%q, %s: %v, want %v", handler, mode, got.Mounts[0].RecursiveReadOnly, want)
			}
		}
	}
}

func TestMountOptions(t *testing.T) {
	const (
		ro       = v1.RecursiveReadOnlyEnabled
		possible = v1.RecursiveReadOnlyIfPossible
	)
	for _, tt := range []struct {
		name    string
		mount   v1.VolumeMount
		runtime bool
		want    *runtimeapi.Mount
		fault   string
	}{
		{"none", v1.VolumeMount{}, true, &runtimeapi.Mount{}, ""},
		{"read-only", v1.VolumeMount{ReadOnly: true}, true, &runtimeapi.Mount{Readonly: true}, ""},
		{"recursively", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(ro)}, true, &runtimeapi.Mount{Readonly: true, RecursiveReadOnly: true}, ""},
		{"recursively, by such a runtime", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(ro)}, false, nil, "not supported by the runtime"},
		{"recursively, but writable", v1.VolumeMount{RecursiveReadOnly: ptr(ro)}, true, nil, "needs readOnly"},
		{"recursively, but shared", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(ro), MountPropagation: ptr(v1.MountPropagationHostToContainer)}, true, nil, "mountPropagation"},
		{"if possible", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(possible)}, true, &runtimeapi.Mount{Readonly: true, RecursiveReadOnly: true}, ""},
		{"if it were possible", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(possible)}, false, &runtimeapi.Mount{Readonly: true}, ""},
		{"if possible, but shared", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(possible), MountPropagation: ptr(v1.MountPropagationBidirectional)}, true,
			&runtimeapi.Mount{Readonly: true, Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL}, ""},
		{"disabled", v1.VolumeMount{RecursiveReadOnly: ptr(v1.RecursiveReadOnlyDisabled)}, true, &runtimeapi.Mount{}, ""},
		{"unknown", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyMode("X"))}, true, nil, `recursiveReadOnly "X"`},
		{"from the node", v1.VolumeMount{MountPropagation: ptr(v1.MountPropagationHostToContainer)}, true,
			&runtimeapi.Mount{Propagation: runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER}, ""},
		{"private", v1.VolumeMount{MountPropagation: ptr(v1.MountPropagationNone)}, true, &runtimeapi.Mount{}, ""},
		{"unknown propagation", v1.VolumeMount{MountPropagation: ptr(v1.MountPropagationMode("X"))}, true, nil, `mountPropagation "X"`},
		{"no volume", v1.VolumeMount{Name: "other"}, true, nil, `volumeMounts[0] (volume "other"): the pod has no such volume`},
	} {
		pod, dir := podWith(named("vol", emptyDir())), t.TempDir()
		handlers := []string{"gvisor"}
		if tt.runtime {
			handlers = []string{"", "runc"}
		}
		v := newVolumes(t, local.Config{RecursiveReadOnly: handlers, Unprivileged: true})
		setUp(t, v, pod, dir)
		if tt.mount.Name == "" {
			tt.mount.Name = "vol"
		}
		tt.mount.MountPath = "data" // of a container, so below its root
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{tt.mount}
		got, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, dir)
		if tt.fault != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: %v, want %q", tt.name, err, tt.fault)
			}
			continue
		}
		tt.want.ContainerPath, tt.want.HostPath, tt.want.SelinuxRelabel = "/data", filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol"), true
		if err != nil || !proto.Equal(got.Mounts[0], tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, got.Mounts, err, tt.want)
		}
	}
}

func TestMountsBeforeSetUp(t *testing.T) {
	pod := podWith(named("vol", emptyDir()))
	_, err := unprivileged(t).Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "not been set up") {
		t.Errorf("%v: the runtime would make an empty directory of its own", err)
	}
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk"}}
	_, err = unprivileged(t).Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0]}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `volume "disk"`) {
		t.Errorf("a device: %v, want an error and %q in it", err, `volume "disk"`)
	}
}

// subPathOf returns the path below the volume that a mount with that subPath uses.
func subPathOf(t *testing.T, v *local.Volumes, dir string, mount v1.VolumeMount, vars ...env.Var) (string, error) {
	t.Helper()
	pod := podWith(named("vol", emptyDir()))
	mount.Name, mount.MountPath = "vol", "/data"
	pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{mount}
	setUp(t, v, pod, dir)
	m, err := v.Mounts(t.Context(), container.MountRequest{Pod: pod, Container: &pod.Spec.Containers[0], Env: vars}, dir)
	if err != nil {
		return "", err
	}
	return m.Mounts[0].HostPath, nil
}

func TestSubPath(t *testing.T) {
	v := unprivileged(t)
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(vol, "real"), 0o700), os.Symlink("real", filepath.Join(vol, "link"))))
	vars := []env.Var{{Name: "POD", Value: "web-0"}, {Name: "BAD", Value: "../x"}, {Name: "EMPTY"}, {Name: "LONG", Value: strings.Repeat("x", 2048)}}
	for _, tt := range []struct {
		mount v1.VolumeMount
		want  string
	}{
		{v1.VolumeMount{SubPath: "real"}, "real"},
		{v1.VolumeMount{SubPath: "link"}, "real"},
		{v1.VolumeMount{SubPath: "new/below"}, "new/below"},
		{v1.VolumeMount{SubPathExpr: "logs/$(POD)"}, "logs/web-0"},
		{v1.VolumeMount{SubPathExpr: "$(EMPTY)"}, ""},
	} {
		if got, err := subPathOf(t, v, dir, tt.mount, vars...); err != nil || got != filepath.Join(vol, tt.want) {
			t.Errorf("%+v: %q, %v, want %q", tt.mount, got, err, tt.want)
		}
	}
	if info, err := os.Stat(filepath.Join(vol, "new/below")); err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Errorf("%v, %v, want a directory like the volume's own", info, err)
	}
	for _, tt := range []struct {
		mount v1.VolumeMount
		want  string
	}{
		{v1.VolumeMount{SubPath: "/etc"}, "absolute"},
		{v1.VolumeMount{SubPath: "a/../../b"}, ".. as an element"},
		{v1.VolumeMount{SubPathExpr: "$(BAD)"}, ".. as an element"},
		{v1.VolumeMount{SubPathExpr: "$(NONE)/$(POD)/$(NEITHER)"}, "no variable NONE, NEITHER"},
		{v1.VolumeMount{SubPathExpr: "$(LONG)/$(LONG)"}, "it has more than 4095 bytes"},
		{v1.VolumeMount{SubPath: strings.Repeat("d/", 2048)}, "has 4096 bytes, and a path has at most 4095"},
	} {
		if got, err := subPathOf(t, v, dir, tt.mount, vars...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %q, %v, want %q", tt.mount, got, err, tt.want)
		}
	}
}

// A variable of a subPathExpr may come from a Secret, so errors do not contain its value.
func TestErrorsOfASubPathExprAreWithoutItsVariables(t *testing.T) {
	const secret = "hunter2"
	v, dir := unprivileged(t), t.TempDir()
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(vol, "file"), nil, 0o600), os.Symlink("/"+secret, filepath.Join(vol, secret))))
	for _, value := range []string{"file/" + secret, secret, secret + "/below", "../" + secret, "/" + secret, secret + "\\", strings.Repeat(secret, 50)} {
		mount := v1.VolumeMount{SubPathExpr: "$(PASSWORD)"}
		got, err := subPathOf(t, v, dir, mount, env.Var{Name: "PASSWORD", Value: value})
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "$(PASSWORD)") {
			t.Errorf("%s: %q, %v, want an error and no %v in it and %q in it", value, got, err, secret, "$(PASSWORD)")
		}
	}
}

// Links that a container has made do not lead out of the volume, nor do
// directories get made through them.
func TestSubPathThroughALinkThatLeadsOut(t *testing.T) {
	v, top := unprivileged(t), t.TempDir()
	dir, outside := filepath.Join(top, "pod"), filepath.Join(top, "outside")
	vol := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	setUp(t, v, podWith(named("vol", emptyDir())), dir)
	must.Do(t, errors.Join(
		os.Mkdir(outside, 0o700),
		os.Symlink(outside, filepath.Join(vol, "absolute")),
		os.Symlink("../../../../outside", filepath.Join(vol, "relative")),
		os.Symlink("../../../../outside/none", filepath.Join(vol, "dangling")),
	))
	for _, sub := range []string{"absolute", "relative", "absolute/x", "relative/x/y", "dangling", "dangling/x"} {
		if got, err := subPathOf(t, v, dir, v1.VolumeMount{SubPath: sub}); err == nil {
			t.Errorf("%s: %q", sub, got)
		}
	}
	if entries, _ := os.ReadDir(outside); len(entries) > 0 {
		t.Errorf("made outside: %v", entries)
	}
}

// The runtime mounts an image volume; the agent creates no files for it.
func TestImageMount(t *testing.T) {
	pod, dir := podWith(named("vol", v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "r.io/data:v1"}})), t.TempDir()
	v := newVolumes(t, local.Config{})
	must.Do(t, v.SetUp(t.Context(), pod, dir))
	if next, err := v.Refresh(t.Context(), pod, dir); err != nil || !next.IsZero() {
		t.Errorf("refreshed again at %v, error %v", next, err)
	}
	for _, tt := range []struct {
		name   string
		mount  v1.VolumeMount
		images map[string]string
		want   *runtimeapi.Mount
		fault  string
	}{
		{"all of it", v1.VolumeMount{}, map[string]string{"vol": "sha256:1"}, &runtimeapi.Mount{}, ""},
		{"a directory", v1.VolumeMount{SubPath: "a/b"}, map[string]string{"vol": "sha256:1"}, &runtimeapi.Mount{ImageSubPath: "a/b"}, ""},
		{"a directory by a variable", v1.VolumeMount{SubPathExpr: "$(DIR)/b"}, map[string]string{"vol": "sha256:1"}, &runtimeapi.Mount{ImageSubPath: "v/b"}, ""},
		{"a way out", v1.VolumeMount{SubPath: "../etc"}, map[string]string{"vol": "sha256:1"}, nil, "subPath"},
		{"no such variable", v1.VolumeMount{SubPathExpr: "$(NONE)"}, map[string]string{"vol": "sha256:1"}, nil, "there is no variable NONE"},
		{"not pulled", v1.VolumeMount{}, map[string]string{"other": "sha256:1"}, nil, "MountRequest.Images does not have it"},
		{"unknown propagation", v1.VolumeMount{MountPropagation: ptr(v1.MountPropagationMode("X"))}, map[string]string{"vol": "sha256:1"}, nil, `mountPropagation "X"`},
		{"recursively, by such a runtime", v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr(v1.RecursiveReadOnlyEnabled)}, map[string]string{"vol": "sha256:1"}, nil, "not supported"},
	} {
		tt.mount.Name, tt.mount.MountPath = "vol", "/data"
		pod.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{tt.mount}
		got, err := v.Mounts(t.Context(), container.MountRequest{
			Pod: pod, Container: &pod.Spec.Containers[0], Images: tt.images, Env: []env.Var{{Name: "DIR", Value: "v"}},
		}, dir)
		if tt.fault != "" || err != nil {
			if err == nil || tt.fault == "" || !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("%s: error %v, want %q", tt.name, err, tt.fault)
			}
			continue
		}
		tt.want.ContainerPath, tt.want.Readonly = "/data", true
		tt.want.Image = &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "r.io/data:v1"}
		if !proto.Equal(got.Mounts[0], tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got.Mounts[0], tt.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("on the node there is %v, error %v", left, err)
	}
}
