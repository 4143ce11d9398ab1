package source

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod/container/env"
)

// ConfigMap returns a ConfigMap, or its last known version if the source is unavailable.
func (r *Checkpoint) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	if r.config.ConfigMaps == nil {
		return nil, errors.New("there is no source of ConfigMaps (source.CheckpointConfig.ConfigMaps)")
	}
	r.read.Do(r.readCheckpoint)
	return r.configMaps.Ask(ctx, types.NamespacedName{Namespace: namespace, Name: name}, func(ctx context.Context) (*v1.ConfigMap, error) {
		return r.config.ConfigMaps.ConfigMap(ctx, namespace, name)
	})
}

// Secret returns a Secret, or its last known version if the source is unavailable.
func (r *Checkpoint) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	if r.config.Secrets == nil {
		return nil, errors.New("there is no source of Secrets (source.CheckpointConfig.Secrets)")
	}
	r.read.Do(r.readCheckpoint)
	secret, err := r.secrets.Ask(ctx, types.NamespacedName{Namespace: namespace, Name: name}, func(ctx context.Context) (*v1.Secret, error) {
		return r.config.Secrets.Secret(ctx, namespace, name)
	})
	return secret, r.withoutKey(err)
}

// withoutKey adds to an unavailable server's error why a Secret is not in the checkpoint.
func (r *Checkpoint) withoutKey(err error) error {
	if err != nil && r.config.Key == nil && env.Unavailable(err) {
		return fmt.Errorf("%w (it is not in the checkpoint, because there is no source.CheckpointConfig.Key)", err)
	}
	return err
}

// Services returns the Services in a namespace, sorted by name: the current ones, or the last known
// ones while the server is unavailable.
func (r *Checkpoint) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	if r.config.Services == nil {
		return nil, errors.New("there is no source of Services (source.CheckpointConfig.Services)")
	}
	r.read.Do(r.readCheckpoint)
	return r.services.Ask(ctx, namespace, func(ctx context.Context) ([]*v1.Service, error) {
		services, err := r.config.Services.Services(ctx, namespace)
		return slices.SortedFunc(slices.Values(services), func(a, b *v1.Service) int { return strings.Compare(a.Name, b.Name) }), err
	})
}

// RuntimeHandler returns the handler for a runtime class, or the last known
// one.
func (r *Checkpoint) RuntimeHandler(ctx context.Context, class string) (string, error) {
	if r.config.RuntimeClasses == nil {
		return "", errors.New("there is no source of runtime classes (source.CheckpointConfig.RuntimeClasses)")
	}
	r.read.Do(r.readCheckpoint)
	return r.classes.Ask(ctx, class, func(ctx context.Context) (string, error) { return r.config.RuntimeClasses.RuntimeHandler(ctx, class) })
}

// Token returns a token for a pod's service account. If the issuer is unavailable, it returns the
// last token, which may have expired, with the error: a pod can start with it, and gets a new one
// when the issuer is available again.
func (r *Checkpoint) Token(ctx context.Context, pod *v1.Pod, ask *v1.ServiceAccountTokenProjection) (string, error) {
	if r.config.Tokens == nil {
		return "", errors.New("there is no source of tokens (source.CheckpointConfig.Tokens)")
	}
	r.read.Do(r.readCheckpoint)
	token, err, unavailable := r.tokens.Consult(ctx, tokenOf(pod, ask), func(ctx context.Context) (string, error) { return r.config.Tokens.Token(ctx, pod, ask) })
	if unavailable != nil {
		return token, unavailable
	}
	return token, r.withoutKey(err)
}
