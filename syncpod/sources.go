package syncpod

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/lastknown"
	"github.com/podsync/podsync/syncpod/container/env"
	"github.com/podsync/podsync/syncpod/podref"
)

// maxKnown is the maximum size in bytes of the objects of one kind that are remembered of a pod.
const maxKnown = 1 << 20

// knownSources remember the sources' answers for a pod's variables, so that its containers restart while a source is
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

// pullSecrets gets a pod's pull secrets in one sync, when an image needs them. The containers in a pod get theirs
// concurrently, and share the pod's secrets.
type pullSecrets struct {
	mu    sync.Mutex
	asked map[string]*askedSecrets // by image; "" for the pod's secrets
	// reported is set once an event says that some are missing.
	reported bool
}

// askedSecrets is one request for pull secrets. The fields below done are set when it is closed.
type askedSecrets struct {
	done    chan struct{}
	secrets []v1.Secret
	err     error
	// cut is how long the caller waited until its time ended, zero if it did not: those with more time ask again.
	cut time.Duration
}

// of returns the pull secrets for an image. Missing secrets are reported, and the pull goes on without them: the image may be
// public.
func (p *pullSecrets) of(ctx context.Context, s *Syncer, pod *v1.Pod, image string) ([]v1.Secret, error) {
	from := s.config.Objects.PullSecrets
	if from == nil {
		return nil, nil
	}
	get := from.PullSecrets
	if single, ok := from.(ImagePullSecrets); ok {
		get = func(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
			return single.PullSecretsFor(ctx, pod, image)
		}
	} else {
		image = ""
	}
	var tried *askedSecrets
	for {
		asked, first := p.request(image, tried)
		if first {
			began := time.Now()
			asked.secrets, asked.err = get(ctx, pod)
			if ctx.Err() != nil {
				asked.cut = time.Since(began)
			} else if asked.err != nil && p.report() {
				s.eventf(podref.Pod(pod), v1.EventTypeWarning, EventFailedToRetrieveImagePullSecret, "Unable to retrieve some image pull secrets (%v); attempting to pull the image may not succeed.", asked.err)
			}
			close(asked.done)
			return asked.secrets, asked.err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-asked.done:
			if end, ends := ctx.Deadline(); asked.cut == 0 || ends && time.Until(end) <= asked.cut {
				return asked.secrets, asked.err
			}
			tried = asked
		}
	}
}

// request returns the request for an image, and whether it is new. It replaces one that the caller has tried.
func (p *pullSecrets) request(image string, tried *askedSecrets) (asked *askedSecrets, first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if asked = p.asked[image]; asked == tried { // nil before the first one
		asked, first = &askedSecrets{done: make(chan struct{})}, true
		put(&p.asked, image, asked)
	}
	return asked, first
}

func (p *pullSecrets) report() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.reported
	p.reported = true
	return first
}
