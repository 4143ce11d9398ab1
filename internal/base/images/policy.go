package images

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime/image"
)

// effectivePolicy returns the policy that applies: the one given or, where no
// API server has set one, the API's default.
func effectivePolicy(p v1.PullPolicy, ref imageRef) v1.PullPolicy {
	switch {
	case p != "":
		return p
	case ref.isLatest():
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// shouldPull decides. Reason is empty, or says why the image cannot be used.
func shouldPull(p v1.PullPolicy, present bool) (pull bool, reason image.Reason) {
	switch {
	case p == v1.PullAlways:
		return true, ""
	case present:
		return false, ""
	case p == v1.PullNever:
		return false, image.ErrImageNeverPull
	}
	return true, ""
}
