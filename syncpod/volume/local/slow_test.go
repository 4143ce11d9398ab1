package local_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/volume/local"
)

// A source that does not answer takes half of the time: the volumes after it are updated.
func TestASlowVolumeDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir, silent := newStore(), t.TempDir(), false
		secrets := env.SecretsFunc(func(ctx context.Context, namespace, name string) (*v1.Secret, error) {
			if silent {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.Secret(ctx, namespace, name)
		})
		v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: secrets, Unprivileged: true})
		pod := podWith(named("slow", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}), named("vol", v1.VolumeSource{ConfigMap: conf()}))
		setUp(t, v, pod, dir)
		silent, s.configMaps["shop/conf"] = true, &v1.ConfigMap{Data: map[string]string{"a.conf": "new"}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		if _, err := v.Refresh(ctx, pod, dir); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want the error of the slow volume", err)
		}
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("it took %v, want half of the time", took)
		}
		if got, want := tree(t, filepath.Join(dir, "volumes/kubernetes.io~configmap/vol")), []string{"a.conf 0644 new"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A volume that no container mounts is not updated, so that it takes no part of the time.
func TestAnUnmountedVolumeTakesNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir, slow := newStore(), t.TempDir(), false
		secrets := env.SecretsFunc(func(ctx context.Context, namespace, name string) (*v1.Secret, error) {
			if slow {
				time.Sleep(4 * time.Second)
			}
			return s.Secret(ctx, namespace, name)
		})
		v := newVolumes(t, local.Config{ConfigMaps: s, Secrets: secrets, Unprivileged: true})
		pod := podWith(named("slow", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "keys"}}))
		setUp(t, v, pod, dir)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "unmounted", VolumeSource: v1.VolumeSource{ConfigMap: conf()}})
		slow = true
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := v.Refresh(ctx, pod, dir); err != nil {
			t.Errorf("%v, want that the only mounted volume has all of the time", err)
		}
	})
}
