package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
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
	patterns := make([]string, len(list))
	for i, pattern := range list {
		full, ok := fullPattern(pattern)
		if !ok {
			return false, nil, fmt.Errorf("preloadedImagesVerificationAllowlist[%d] is %q, want a repository, which may end with /*", i, pattern)
		}
		patterns[i] = full
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
			return !slices.ContainsFunc(patterns, func(pattern string) bool { return matchRepository(pattern, repository) })
		}, nil
	}
	return false, nil, fmt.Errorf("imagePullCredentialsVerificationPolicy is %q, want %q, %q, %q or %q", policy,
		kubelet.NeverVerify, kubelet.NeverVerifyPreloadedImages, kubelet.NeverVerifyAllowlistedImages, kubelet.AlwaysVerify)
}

// fullPattern returns a pattern with its repository's full name: "docker.io/library/nginx" for "nginx", and
// "docker.io/team/*" for "team/*".
func fullPattern(pattern string) (full string, ok bool) {
	prefix, below := strings.CutSuffix(pattern, "/*")
	name := prefix
	if below {
		name += "/any/name" // two elements, because "docker.io/any" is short for "docker.io/library/any"
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil || !reference.IsNameOnly(named) {
		return "", false
	}
	if !below {
		return named.Name(), true
	}
	return strings.TrimSuffix(named.Name(), "/any/name") + "/*", true
}

// matchRepository reports whether a repository matches the pattern, or is below it.
func matchRepository(pattern, repository string) bool {
	prefix, below := strings.CutSuffix(pattern, "*")
	return pattern == repository || below && strings.HasPrefix(repository, prefix)
}
