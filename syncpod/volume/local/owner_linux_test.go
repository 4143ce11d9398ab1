package local_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// needsRoot skips a test if the process may not change the owner of files.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to give files to a group and a user")
	}
}

// owned lists the files at and below a path as "path mode user:group", without
// symbolic links, because their owner does not matter.
func owned(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	must.Do(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type() == fs.ModeSymlink {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		name, err := filepath.Rel(dir, path)
		list = append(list, fmt.Sprintf("%s %04o %d:%d", name, stat.Mode&0o7777, stat.Uid, stat.Gid))
		return err
	}))
	return list
}

func withGroup(pod *v1.Pod, group int64) *v1.Pod {
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	return pod
}

// The files of a pod with an fsGroup belong to that group. The group may read files that the agent
// writes, and write to the pod's own files.
func TestFSGroup(t *testing.T) {
	needsRoot(t)
	secret := &v1.SecretVolumeSource{SecretName: "keys", DefaultMode: ptr[int32](0o400), Items: []v1.KeyToPath{
		{Key: "tls.key", Path: "etc/key"}, {Key: "tls.crt", Path: "crt", Mode: ptr[int32](0o755)},
	}}
	for _, policy := range []v1.PodFSGroupChangePolicy{"", v1.FSGroupChangeAlways, v1.FSGroupChangeOnRootMismatch} {
		for _, tt := range []struct {
			source v1.VolumeSource
			path   string
			want   []string
		}{
			{emptyDir(), "kubernetes.io~empty-dir", []string{". 2777 0:4711"}},
			{v1.VolumeSource{Secret: secret}, "kubernetes.io~secret", []string{
				". 2755 0:4711", "..1 2755 0:4711", "..1/crt 0755 0:4711", "..1/etc 2755 0:4711", "..1/etc/key 0440 0:4711",
			}},
			{v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "a"})}, "kubernetes.io~configmap",
				[]string{". 2755 0:4711", "..1 2755 0:4711", "..1/a 0644 0:4711"}},
			{v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{DefaultMode: ptr[int32](0o200), Items: []v1.DownwardAPIVolumeFile{field("n", "metadata.name")}}},
				"kubernetes.io~downward-api", []string{". 2755 0:4711", "..1 2755 0:4711", "..1/n 0640 0:4711"}},
			{v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: ptr[int32](0o400), Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: conf().LocalObjectReference, Items: []v1.KeyToPath{{Key: "a.conf", Path: "a"}}}},
			}}}, "kubernetes.io~projected", []string{". 2755 0:4711", "..1 2755 0:4711", "..1/a 0440 0:4711"}},
		} {
			dir := t.TempDir()
			pod := withGroup(podWith(named("vol", tt.source)), 4711)
			if policy != "" {
				pod.Spec.SecurityContext.FSGroupChangePolicy = &policy
			}
			for range 2 {
				setUp(t, unprivileged(t), pod, dir)
				if got := owned(t, filepath.Join(dir, "volumes", tt.path, "vol")); !slices.Equal(got, tt.want) {
					t.Errorf("%s, policy %q: %q, want %q", tt.path, policy, got, tt.want)
				}
			}
		}
	}
}

// Existing files of the node keep their group.
func TestFSGroupLeavesHostPathsAlone(t *testing.T) {
	needsRoot(t)
	host := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(host, "file"), nil, 0o600))
	before := owned(t, host)
	setUp(t, unprivileged(t), withGroup(podWith(named("host", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: host}})), 4711), t.TempDir())
	if after := owned(t, host); !slices.Equal(after, before) {
		t.Errorf("%q, want %q", after, before)
	}
}

// Files that an earlier agent has written without a group are written again.
func TestFSGroupOfFilesThatAreThere(t *testing.T) {
	needsRoot(t)
	dir, v := t.TempDir(), unprivileged(t)
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "a"})}))
	setUp(t, v, pod, dir)
	setUp(t, v, withGroup(pod, 4711), dir)
	want := []string{". 2755 0:4711", "..2 2755 0:4711", "..2/a 0644 0:4711"}
	if got := owned(t, filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Changes that a container has made to the mode of its emptyDir are kept when another container starts.
func TestFSGroupIsGivenOnce(t *testing.T) {
	needsRoot(t)
	dir, v := t.TempDir(), unprivileged(t)
	pod := withGroup(podWith(named("vol", emptyDir())), 4711)
	path := filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")
	// An earlier agent got no further than this.
	must.Do(t, os.MkdirAll(filepath.Join(filepath.Dir(path), ".vol"), 0o700))
	setUp(t, v, pod, dir)
	if got, want := owned(t, filepath.Dir(path))[1:], []string{"vol 2777 0:4711"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	must.Do(t, os.Chmod(path, 0o700))
	setUp(t, v, pod, dir)
	if got, want := owned(t, path), []string{". 0700 0:4711"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFSGroupInMemory(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	needsMount(t, dir)
	s := newStore()
	v := newVolumes(t, local.Config{Secrets: s})
	setUp(t, v, withGroup(podWith(
		named("scratch", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}),
		named("keys", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys", DefaultMode: ptr[int32](0o400)}}),
	), 4711), dir)
	for path, want := range map[string][]string{
		"kubernetes.io~empty-dir/scratch": {". 3777 0:4711"},
		"kubernetes.io~secret/keys":       {". 2755 0:4711", "..1 2755 0:4711", "..1/tls.crt 0440 0:4711", "..1/tls.key 0440 0:4711"},
	} {
		if got := owned(t, filepath.Join(dir, "volumes", path)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// A directory that is made for a subPath is as sticky as its volume.
func TestSubPathInMemory(t *testing.T) {
	needsRoot(t)
	dir := t.TempDir()
	needsMount(t, dir)
	v := newVolumes(t, local.Config{})
	setUp(t, v, withGroup(podWith(named("vol", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}})), 4711), dir)
	must.Get(subPathOf(t, v, dir, v1.VolumeMount{SubPath: "a"}))(t)
	if got, want := owned(t, filepath.Join(dir, "volumes/kubernetes.io~empty-dir/vol")), []string{". 3777 0:4711", "a 3777 0:4711"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A directory that is created for a subPath also belongs to the group.
func TestFSGroupOfSubPath(t *testing.T) {
	needsRoot(t)
	dir, v := t.TempDir(), unprivileged(t)
	setUp(t, v, withGroup(podWith(named("vol", emptyDir())), 4711), dir)
	got := must.Get(subPathOf(t, v, dir, v1.VolumeMount{SubPath: "a/b"}))(t)
	if got, want := owned(t, filepath.Dir(got)), []string{". 2777 0:4711", "b 2777 0:4711"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A token is for whom the pod runs as, and no one else if that is known.
func TestOwnersOfTokens(t *testing.T) {
	needsRoot(t)
	user := func(id int64) *v1.SecurityContext { return &v1.SecurityContext{RunAsUser: &id} }
	for name, tt := range map[string]struct {
		change func(*v1.PodSpec)
		want   string
	}{
		"any user": {func(*v1.PodSpec) {}, "0444 0:0"},
		"a user":   {func(s *v1.PodSpec) { s.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr[int64](1000)} }, "0600 1000:0"},
		"a user of all": {func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext, s.InitContainers[0].SecurityContext = user(7), user(7)
		}, "0600 7:0"},
		"another init user": {func(s *v1.PodSpec) {
			s.Containers[0].SecurityContext, s.InitContainers[0].SecurityContext = user(7), user(8)
		}, "0444 0:0"},
		"a user of one of them": {func(s *v1.PodSpec) { s.Containers[0].SecurityContext = user(7) }, "0444 0:0"},
		"a user but for one": {func(s *v1.PodSpec) {
			s.SecurityContext, s.Containers[0].SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr[int64](7)}, user(8)
		}, "0444 0:0"},
		"a group": {func(s *v1.PodSpec) { s.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr[int64](4711)} }, "0640 0:4711"},
		"a user and a group": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr[int64](7), FSGroup: ptr[int64](4711)}
		}, "0640 7:4711"},
	} {
		dir := t.TempDir()
		v := newVolumes(t, local.Config{Unprivileged: true, Tokens: tokensFunc(
			func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
				return "sesame", nil
			},
		)})
		pod := podWith(named("vol", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: ptr[int32](0o444), Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}))
		pod.Spec.InitContainers = []v1.Container{{Name: "init"}}
		tt.change(&pod.Spec)
		setUp(t, v, pod, dir)
		got := owned(t, filepath.Join(dir, "volumes/kubernetes.io~projected/vol"))
		if want := "..1/token " + tt.want; got[len(got)-1] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestOwnersThatCannotBe(t *testing.T) {
	for _, id := range []int64{-1, 1 << 32} {
		for field, security := range map[string]*v1.PodSecurityContext{"fsGroup": {FSGroup: &id}, "runAsUser": {RunAsUser: &id}} {
			pod := podWith(named("vol", emptyDir()), named("conf", v1.VolumeSource{ConfigMap: conf()}))
			pod.Spec.SecurityContext = security
			err := unprivileged(t).SetUp(t.Context(), pod, t.TempDir())
			if err == nil || strings.Count(err.Error(), fmt.Sprintf("%s %d: must be between", field, id)) != 2 {
				t.Errorf("%s %d: %v, want an error and 2", field, id, err)
			}
		}
	}
}

// If the agent may not change the owner of files, they keep their owner and mode.
func TestFSGroupWithoutTheRight(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("needs an agent that is not root")
	}
	me := fmt.Sprintf("%d:%d", os.Geteuid(), os.Getegid())
	for group, want := range map[int]string{os.Getegid(): "0440", 4711: "0400"} {
		dir := t.TempDir()
		pod := withGroup(podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "a", Mode: ptr[int32](0o400)})})), int64(group))
		setUp(t, unprivileged(t), pod, dir)
		got := owned(t, filepath.Join(dir, "volumes/kubernetes.io~configmap/vol"))
		if last := got[len(got)-1]; !strings.HasSuffix(last, "/a "+want+" "+me) {
			t.Errorf("group %d: %q, want mode %s of %s", group, last, want, me)
		}
	}
}
