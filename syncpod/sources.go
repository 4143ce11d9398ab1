package syncpod

import (
	"context"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/syncpod/container/env"
)

// maxKnown is the maximum size in bytes of the objects of one kind that are remembered of a pod.
const maxKnown = 1 << 20

// knownSources remember what the sources have answered for a pod's variables, so that its containers restart while a source is
// unavailable. Volume files are remembered by the disk.
type knownSources struct {
	configMaps lastknown.Answers[string, *v1.ConfigMap]
	secrets    lastknown.Answers[string, *v1.Secret]
	services   lastknown.Answers[string, []*v1.Service]
	silence    lastknown.Silence // an API server that is unavailable is so for all of them
}

func newKnownSources() *knownSources {
	k := &knownSources{}
	k.configMaps.Silence, k.secrets.Silence, k.services.Silence = &k.silence, &k.silence, &k.silence
	k.configMaps.Size, k.configMaps.Limit = func(c *v1.ConfigMap) (n int) {
		for key, value := range c.Data {
			n += len(key) + len(value)
		}
		for key, value := range c.BinaryData {
			n += len(key) + len(value)
		}
		return n
	}, maxKnown
	k.secrets.Size, k.secrets.Limit = func(s *v1.Secret) (n int) {
		for key, value := range s.Data {
			n += len(key) + len(value)
		}
		return n
	}, maxKnown
	return k
}

// of returns sources that answer from memory if those of the program are unavailable.
func (k *knownSources) of(from env.Sources) env.Sources {
	var known env.Sources
	if from.ConfigMaps != nil {
		known.ConfigMaps = env.ConfigMapsFunc(func(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
			return k.configMaps.Ask(ctx, name, func(ctx context.Context) (*v1.ConfigMap, error) {
				object, err := from.ConfigMaps.ConfigMap(ctx, namespace, name)
				if err == nil && object == nil {
					err = env.ErrNotFound
				}
				return object, err
			})
		})
	}
	if from.Secrets != nil {
		known.Secrets = env.SecretsFunc(func(ctx context.Context, namespace, name string) (*v1.Secret, error) {
			return k.secrets.Ask(ctx, name, func(ctx context.Context) (*v1.Secret, error) {
				object, err := from.Secrets.Secret(ctx, namespace, name)
				if err == nil && object == nil {
					err = env.ErrNotFound
				}
				return object, err
			})
		})
	}
	if from.Services != nil {
		known.Services = servicesFunc(func(ctx context.Context, namespace string) ([]*v1.Service, error) {
			return k.services.Ask(ctx, namespace, func(ctx context.Context) ([]*v1.Service, error) { return from.Services.Services(ctx, namespace) })
		})
	}
	return known
}

type servicesFunc func(ctx context.Context, namespace string) ([]*v1.Service, error)

// Services calls f.
func (f servicesFunc) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	return f(ctx, namespace)
}
