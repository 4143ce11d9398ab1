package image

import (
	v1 "k8s.io/api/core/v1"
)

// effectivePolicy returns the policy that applies: the given one or, if no API server has set one, the API's default.
func effectivePolicy(p v1.PullPolicy, ref imageRef) v1.PullPolicy {
	switch {
	case p != "":
		return p
	case ref.isLatest():
		return v1.PullAlways
	}
	return v1.PullIfNotPresent
}

// shouldPull reports whether the image must be pulled. If reason is not empty, the image cannot be used.
func shouldPull(p v1.PullPolicy, present bool) (pull bool, reason Reason) {
	switch {
	case p == v1.PullAlways:
		return true, ""
	case present:
		return false, ""
	case p == v1.PullNever:
		return false, ErrImageNeverPull
	}
	return true, ""
}
