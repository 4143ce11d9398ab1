package source

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/container/env"
)

// maxPullSecrets limits the Secrets for one pod's images. Too many are an error about the pod: its author must not make the source
// appear unavailable, because a container may then keep an image without credentials.
const maxPullSecrets = 256

// PullSecrets returns the Secrets in the folder that the pod's imagePullSecrets name. The error names those that are missing.
func (f *Folder) PullSecrets(ctx context.Context, pod *v1.Pod) ([]v1.Secret, error) {
	var secrets []v1.Secret
	var errs []error
	if pod == nil {
		return nil, nil
	}
	seen := map[string]bool{}
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" || seen[ref.Name] {
			continue
		}
		if len(seen) == maxPullSecrets {
			errs = append(errs, fmt.Errorf("imagePullSecrets name more than %d secrets: %q and those after it count as %w", maxPullSecrets, ref.Name, env.ErrNotFound))
			break
		}
		seen[ref.Name] = true
		secret, err := f.Secret(ctx, pod.Namespace, ref.Name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		secrets = append(secrets, *secret)
	}
	return secrets, errors.Join(errs...)
}
