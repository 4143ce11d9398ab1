package local_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/volume/local"
)

// The files of a pod's volumes are bounded together, before any of a volume is written,
// however often its items name one key.
func TestFilesOfAPodAreBounded(t *testing.T) {
	s := newStore()
	s.secrets["shop/keys"].Data["big"] = make([]byte, 1<<20)
	repeated := func(name, key string, times int) v1.Volume {
		items := make([]v1.KeyToPath, times)
		for i := range items {
			items[i] = v1.KeyToPath{Key: key, Path: fmt.Sprint("f", i)}
		}
		return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys", Items: items}}}
	}
	deep := func(name string, times int) v1.Volume {
		v := repeated(name, "tls.crt", times)
		for i := range v.Secret.Items {
			v.Secret.Items[i].Path += strings.Repeat("/a", 100)
		}
		return v
	}
	for name, c := range map[string]struct {
		volumes []v1.Volume
		want    string // "" if all is written
	}{
		"32 MiB":               {[]v1.Volume{repeated("a", "big", 16), repeated("b", "big", 16)}, ""},
		"more in one volume":   {[]v1.Volume{repeated("a", "big", 33)}, `"a"`},
		"more in two volumes":  {[]v1.Volume{repeated("a", "big", 20), repeated("b", "big", 13)}, `"b"`},
		"too many small files": {[]v1.Volume{repeated("a", "tls.crt", 8193)}, `"a"`},
		"too many directories": {[]v1.Volume{deep("a", 41), deep("b", 41)}, `"b"`},
		"one path again and again": {[]v1.Volume{{Name: "a", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: func() []v1.VolumeProjection {
			sources := make([]v1.VolumeProjection, 40)
			for i := range sources {
				sources[i].Secret = &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Items: []v1.KeyToPath{{Key: "big", Path: "f"}}}
			}
			return sources
		}()}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podWith(c.volumes...)
			err := newVolumes(t, local.Config{Secrets: s, Unprivileged: true}).SetUp(t.Context(), pod, t.TempDir())
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "the pod's volumes have more than")) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
		})
	}
}
