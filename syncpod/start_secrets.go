package syncpod

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/podref"
)

// pullSecrets gets a pod's pull secrets in one sync, when an image needs them. The containers in a pod get theirs
// concurrently, and share the pod's secrets.
type pullSecrets struct {
	mu    sync.Mutex
	asked map[string]func() []v1.Secret // by image; "" for the pod's secrets
	// reported is set once an event says that some are missing.
	reported bool
}

// of returns the pull secrets for an image. Missing secrets are reported, and the pull goes on without them: the image may be
// public.
func (p *pullSecrets) of(ctx context.Context, o *observedPod, image string) []v1.Secret {
	from := o.config.Objects.PullSecrets
	if from == nil {
		return nil
	}
	get := from.PullSecrets
	if single, ok := from.(ImagePullSecrets); ok {
		get = func(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
			return single.PullSecretsFor(ctx, pod, image)
		}
	} else {
		image = ""
	}
	return p.once(image, func() []v1.Secret {
		secrets, err := get(ctx, o.pod)
		if err != nil && ctx.Err() == nil && p.report() {
			o.eventf(podref.Pod(o.pod), v1.EventTypeWarning, EventFailedToRetrieveImagePullSecret, "Unable to retrieve some image pull secrets (%v); attempting to pull the image may not succeed.", err)
		}
		return secrets
	})()
}

// once returns the function that was recorded for an image first.
func (p *pullSecrets) once(image string, get func() []v1.Secret) func() []v1.Secret {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked[image] == nil {
		put(&p.asked, image, sync.OnceValue(get))
	}
	return p.asked[image]
}

func (p *pullSecrets) report() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.reported
	p.reported = true
	return first
}
