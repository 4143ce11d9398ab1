package config_test

import (
	"strings"
	"testing"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/modules/cluster/config"
)

func TestPodsThatMayUseImages(t *testing.T) {
	for name, tc := range map[string]struct {
		policy   string
		list     []string
		share    bool
		verified string // the repositories among r.io/app, r.io/team/app and r.io/teams for which verify returns true
		err      string
	}{
		"default":            {},
		"never":              {policy: "NeverVerify", share: true},
		"not preloaded ones": {policy: "NeverVerifyPreloadedImages"},
		"always":             {policy: "AlwaysVerify", verified: "r.io/app r.io/team/app r.io/teams"},
		"a list":             {policy: "NeverVerifyAllowlistedImages", list: []string{"r.io/team/*"}, verified: "r.io/app r.io/teams"},
		"one repository":     {policy: "NeverVerifyAllowlistedImages", list: []string{"r.io/app", "r.io/tea"}, verified: "r.io/team/app r.io/teams"},
		"an empty list":      {policy: "NeverVerifyAllowlistedImages", verified: "r.io/app r.io/team/app r.io/teams"},
		"no such policy":     {policy: "Sometimes", err: "imagePullCredentialsVerificationPolicy is \"Sometimes\""},
		"a list for nothing": {list: []string{"r.io/app"}, err: "preloadedImagesVerificationAllowlist is set"},
		"a wildcard within":  {policy: "NeverVerifyAllowlistedImages", list: []string{"r.io/app", "r.io/*/app"}, err: "preloadedImagesVerificationAllowlist[1]"},
		"everything":         {policy: "NeverVerifyAllowlistedImages", list: []string{"/*"}, err: "preloadedImagesVerificationAllowlist[0]"},
	} {
		c := &kubelet.KubeletConfiguration{ImagePullCredentialsVerificationPolicy: kubelet.ImagePullCredentialsVerificationPolicy(tc.policy), PreloadedImagesVerificationAllowlist: tc.list}
		share, verify, err := config.Images(c)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v, want an error with %q", name, err, tc.err)
			}
			continue
		}
		var verified []string
		for _, repository := range []string{"r.io/app", "r.io/team/app", "r.io/teams"} {
			if verify != nil && verify(repository) {
				verified = append(verified, repository)
			}
		}
		if got := strings.Join(verified, " "); err != nil || share != tc.share || got != tc.verified {
			t.Errorf("%s: share %v, verified %q, %v, want %v and %q", name, share, got, err, tc.share, tc.verified)
		}
	}
}

// An allowlist may have names as pods have them, without the registry that they are short for.
func TestAllowlistOfShortNames(t *testing.T) {
	for repository, want := range map[string]bool{
		"docker.io/library/alpine": true, "docker.io/team/app": true, "quay.io/a/b": true, "docker.io/other/alpine": false, "docker.io/library/alpine2": false, "quay.io.evil/a": false,
	} {
		_, verify, err := config.Images(&kubelet.KubeletConfiguration{
			ImagePullCredentialsVerificationPolicy: kubelet.NeverVerifyAllowlistedImages, PreloadedImagesVerificationAllowlist: []string{"alpine", "team/*", "quay.io/*"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if allowed := !verify(repository); allowed != want {
			t.Errorf("%s is allowed: %v, want %v", repository, allowed, want)
		}
	}
	for _, pattern := range []string{"alpine:3", "alpine@sha256:" + strings.Repeat("a", 64), "Alpine", "https://r.io/a"} {
		c := &kubelet.KubeletConfiguration{ImagePullCredentialsVerificationPolicy: kubelet.NeverVerifyAllowlistedImages, PreloadedImagesVerificationAllowlist: []string{pattern}}
		if _, _, err := config.Images(c); err == nil {
			t.Errorf("%s is accepted", pattern)
		}
	}
}
