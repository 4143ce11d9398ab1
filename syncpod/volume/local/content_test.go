package local_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// tokensFunc is a function that is a volume.Tokens.
type tokensFunc func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error)

func (f tokensFunc) Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	return f(ctx, pod, ask)
}

func conf(items ...v1.KeyToPath) *v1.ConfigMapVolumeSource {
	return &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}, Items: items}
}

func field(name, path string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: name, FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}
}

func TestFiles(t *testing.T) {
	restricted := conf(v1.KeyToPath{Key: "b.conf", Path: "etc/b"}, v1.KeyToPath{Key: "a.conf", Path: "etc/a", Mode: ptr[int32](0o400)})
	restricted.DefaultMode = ptr[int32](0o440)
	absent := conf(v1.KeyToPath{Key: "z.conf", Path: "z"}, v1.KeyToPath{Key: "a.conf", Path: "a"})
	absent.Optional = ptr(true)
	for _, tt := range []struct {
		name   string
		source v1.VolumeSource
		path   string
		want   []string
	}{
		{"all keys", v1.VolumeSource{ConfigMap: conf()}, "kubernetes.io~configmap", []string{"a.conf 0644 A", "b.conf 0644 B", "c.bin 0644 \x00\x01"}},
		{"items and modes", v1.VolumeSource{ConfigMap: restricted}, "kubernetes.io~configmap", []string{"etc/a 0400 A", "etc/b 0440 B"}},
		{"an optional key", v1.VolumeSource{ConfigMap: absent}, "kubernetes.io~configmap", []string{"a 0644 A"}},
		{"an optional object", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "none", Optional: ptr(true)}}, "kubernetes.io~secret", nil},
		{"a secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys", DefaultMode: ptr[int32](0o400)}}, "kubernetes.io~secret",
			[]string{"tls.crt 0400 hello", "tls.key 0400 hush"}},
		{"the pod itself", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			field("name", "metadata.name"), field("labels", "metadata.labels"),
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "app", Resource: "requests.cpu"}},
		}}}, "kubernetes.io~downward-api", []string{"cpu 0644 0", "labels 0644 app=\"web\"", "name 0644 web"}},
		{"projected", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{DefaultMode: ptr[int32](0o444), Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: conf().LocalObjectReference, Items: []v1.KeyToPath{{Key: "a.conf", Path: "x"}, {Key: "b.conf", Path: "y"}}}},
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Items: []v1.KeyToPath{{Key: "tls.key", Path: "x", Mode: ptr[int32](0o400)}}}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{field("me/ns", "metadata.namespace")}}},
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		}}}, "kubernetes.io~projected", []string{"me/ns 0444 shop", "token 0444 sesame", "x 0400 hush", "y 0444 B"}},
	} {
		s, dir := newStore(), t.TempDir()
		v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: s, Unprivileged: true, Tokens: tokensFunc(
			func(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) (string, error) {
				return "sesame", nil
			},
		)})
		pod := podWith(named("vol", tt.source))
		setUp(t, v, pod, dir)
		path := filepath.Join(dir, "volumes", tt.path, "vol")
		if got := tree(t, path); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if m := mountsOf(t, v, pod, dir)[0]; m.HostPath != path || !m.Readonly {
			t.Errorf("%s: %v, want it read-only", tt.name, m)
		}
	}
}

func TestFilesThatLeadOut(t *testing.T) {
	for _, path := range []string{"..", "../x", "a/../../x", "/etc/passwd", "..data", "..data/x", "./..1", "", ".", "a\x00"} {
		top := t.TempDir()
		pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: path})}))
		if err := unprivileged(t).SetUp(t.Context(), pod, filepath.Join(top, "pod")); err == nil || !strings.Contains(err.Error(), "path of a file") {
			t.Errorf("%q: %v, want an error and %q in it", path, err, "path of a file")
		}
	}
	for _, mode := range []int32{-1, 0o1000} {
		pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf(v1.KeyToPath{Key: "a.conf", Path: "a", Mode: &mode})}))
		if err := unprivileged(t).SetUp(t.Context(), pod, t.TempDir()); err == nil || !strings.Contains(err.Error(), "mode") {
			t.Errorf("mode %o: %v, want an error and %q in it", mode, err, "mode")
		}
	}
}

func TestErrorsHoldNoSecret(t *testing.T) {
	secret := &v1.SecretVolumeSource{SecretName: "keys", Items: []v1.KeyToPath{
		{Key: "tls.key", Path: "a"}, {Key: "tls.key", Path: "a/b"}, {Key: "none", Path: "c"},
	}}
	for n := 2; n <= 3; n++ {
		part := secret.DeepCopy()
		part.Items = part.Items[:n]
		err := unprivileged(t).SetUp(t.Context(), podWith(named("vol", v1.VolumeSource{Secret: part})), t.TempDir())
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v, want an error and no %q in it", err, "hush")
		}
	}
}

// An update is seen whole, in files that are links; what did not change is not
// written again.
func TestFilesAreUpdated(t *testing.T) {
	s, dir := newStore(), t.TempDir()
	v := newVolumes(t, local.Config{ConfigMaps: s, Unprivileged: true})
	pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf()}))
	path := filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")
	setUp(t, v, pod, dir)
	first := must.Get(os.Readlink(filepath.Join(path, "..data")))(t)
	if link, _ := os.Readlink(filepath.Join(path, "a.conf")); link != filepath.Join("..data", "a.conf") {
		t.Errorf("a.conf leads to %q", link)
	}
	setUp(t, v, pod, dir)
	if same, _ := os.Readlink(filepath.Join(path, "..data")); same != first {
		t.Errorf("%q after %q, although nothing has changed", same, first)
	}
	s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "A2", "new.conf": "N"}}
	setUp(t, v, pod, dir)
	if got, want := tree(t, path), []string{"a.conf 0644 A2", "new.conf 0644 N"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	second, _ := os.Readlink(filepath.Join(path, "..data"))
	if second == first {
		t.Error("the version was written over")
	}
	entries, _ := os.ReadDir(path)
	var hidden []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			hidden = append(hidden, e.Name())
		}
	}
	if want := []string{second, "..data"}; !slices.Equal(hidden, want) {
		t.Errorf("%q are left, want %q", hidden, want)
	}
}

// An update cut short at any point is finished by the next, whether it is the
// same or a newer one.
func TestFilesAfterACrash(t *testing.T) {
	for name, crash := range map[string]func(path string) error{
		"half a version":     func(p string) error { return os.MkdirAll(filepath.Join(p, "..2/a.conf/x"), 0o755) },
		"a link not renamed": func(p string) error { return os.Symlink("..1", filepath.Join(p, "..data_tmp")) },
		"no links to files":  func(p string) error { return os.Remove(filepath.Join(p, "a.conf")) },
		"a wrong link":       func(p string) error { return os.Rename(filepath.Join(p, "a.conf"), filepath.Join(p, "b.conf")) },
		"a file too many":    func(p string) error { return os.WriteFile(filepath.Join(p, "..1/x"), nil, 0o600) },
		"a file too few":     func(p string) error { return os.Remove(filepath.Join(p, "..1/a.conf")) },
		"another mode":       func(p string) error { return os.Chmod(filepath.Join(p, "..1/a.conf"), 0o600) },
		"a dangling link":    func(p string) error { return os.RemoveAll(filepath.Join(p, "..1")) },
	} {
		for _, newer := range []bool{false, true} {
			s, dir := newStore(), t.TempDir()
			v := newVolumes(t, local.Config{ConfigMaps: s, Unprivileged: true})
			pod := podWith(named("vol", v1.VolumeSource{ConfigMap: conf()}))
			path := filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")
			setUp(t, v, pod, dir)
			must.Do(t, crash(path))
			want := []string{"a.conf 0644 A", "b.conf 0644 B", "c.bin 0644 \x00\x01"}
			if newer {
				s.configMaps["shop/conf"] = &v1.ConfigMap{Data: map[string]string{"a.conf": "A2"}}
				want = []string{"a.conf 0644 A2"}
			}
			setUp(t, v, pod, dir)
			if got := tree(t, path); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}
