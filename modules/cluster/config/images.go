package config

import (
	"fmt"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/config/v1beta1"
)

// Images returns the policy on images that are present on the node. If share is true, every pod may use every image.
// Otherwise verify reports whether a preloaded image of a repository also requires a credential; nil means that no
// preloaded image does.
func Images(c *kubelet.KubeletConfiguration) (share bool, verify func(repository string) bool, err error) {
	list := c.PreloadedImagesVerificationAllowlist
	policy := c.ImagePullCredentialsVerificationPolicy
	if len(list) > 0 && policy != kubelet.NeverVerifyAllowlistedImages {
		return false, nil, fmt.Errorf("preloadedImagesVerificationAllowlist is set, and imagePullCredentialsVerificationPolicy is %q, want %q", policy, kubelet.NeverVerifyAllowlistedImages)
	}
	for i, pattern := range list {
		if prefix := strings.TrimSuffix(pattern, "/*"); prefix == "" || strings.ContainsAny(prefix, "*@ ") {
			return false, nil, fmt.Errorf("preloadedImagesVerificationAllowlist[%d] is %q, want a repository, which may end with /*", i, pattern)
		}
	}
	switch policy {
	case "", kubelet.NeverVerifyPreloadedImages:
		return false, nil, nil
	case kubelet.NeverVerify:
		return true, nil, nil
	case kubelet.AlwaysVerify:
		return false, func(string) bool { return true }, nil
	case kubelet.NeverVerifyAllowlistedImages:
		return false, func(repository string) bool {
			return !slices.ContainsFunc(list, func(pattern string) bool { return matchRepository(pattern, repository) })
		}, nil
	}
	return false, nil, fmt.Errorf("imagePullCredentialsVerificationPolicy is %q, want %q, %q, %q or %q", policy,
		kubelet.NeverVerify, kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyAllowlistedImages, kubelet.AlwaysVerify)
}

// matchRepository reports whether a repository matches the pattern, or is below it.
func matchRepository(pattern, repository string) bool {
	prefix, below := strings.CutSuffix(pattern, "*")
	return pattern == repository || below && strings.HasPrefix(repository, prefix)
}
