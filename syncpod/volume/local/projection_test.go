package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/syncpod/volume"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// bundles provides one file for each ClusterTrustBundle.
type bundles struct {
	text string
	next time.Time
	err  error
}

func (b *bundles) Project(_ context.Context, _ *v1.Pod, vol *v1.Volume, index int) (volume.Projected, error) {
	return volume.Projected{Files: map[string][]byte{vol.Projected.Sources[index].ClusterTrustBundle.Path: []byte(b.text)}, Next: b.next}, b.err
}

func bundleAt(path string) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{field("n", "metadata.name")}}},
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: path}},
	}}}
}

// The files of a provider are beside those of other sources, are read again when the provider says so, and stay if it
// fails.
func TestProjections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bundles{text: "one", next: time.Now().Add(time.Hour)}
		v := newVolumes(t, local.Config{Unprivileged: true, Projections: b})
		pod, dir := podWith(named("vol", bundleAt("ca/roots.pem"))), t.TempDir()
		must.Do(t, v.SetUp(t.Context(), pod, dir))
		want := func(text string) {
			t.Helper()
			path := filepath.Join(dir, "volumes/kubernetes.io~projected/vol/ca/roots.pem")
			if got, err := os.ReadFile(path); err != nil || string(got) != text {
				t.Errorf("%q, %v, want %q", got, err, text)
			}
		}
		want("one")
		b.text = "two"
		if in := refresh(t, v, pod, dir); in != time.Hour {
			t.Errorf("again in %v, want 1 h", in)
		}
		want("two")
		b.text, b.err = "three", errors.New("the API server is unavailable")
		next, err := v.Refresh(t.Context(), pod, dir)
		if err == nil || !strings.Contains(err.Error(), "projected.sources[1]: the API server is unavailable") || time.Until(next) != 30*time.Second {
			t.Errorf("%v, again in %v", err, time.Until(next))
		}
		want("two")
		restarted := newVolumes(t, local.Config{Unprivileged: true, Projections: b})
		must.Do(t, restarted.SetUp(t.Context(), pod, dir))
		want("two")
		if err := restarted.SetUp(t.Context(), pod, t.TempDir()); err == nil || !strings.Contains(err.Error(), "the API server is unavailable") {
			t.Errorf("%v, want the error of the provider for a new pod", err)
		}
	})
}

// A provider cannot lead out of the volume, and takes no more room than other sources.
func TestFilesOfAProviderAreBounded(t *testing.T) {
	for _, test := range []struct{ path, text, want string }{
		{"../../x", "", "path of a file"}, {"/etc/x", "", "path of a file"}, {"x", strings.Repeat("x", 33<<20), "more than 33554432 bytes"}, {"n/x", "", "cannot be beside"},
	} {
		v := newVolumes(t, local.Config{Unprivileged: true, Projections: &bundles{text: test.text}})
		if err := v.SetUp(t.Context(), podWith(named("vol", bundleAt(test.path))), t.TempDir()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.20q: %v, want %q", test.path, err, test.want)
		}
	}
}
