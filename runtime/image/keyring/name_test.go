package keyring

import (
	"strings"
	"testing"
)

const digest = "sha256:0123456789012345678901234567890123456789012345678901234567890123"

func TestParseImageName(t *testing.T) {
	for image, want := range map[string][3]string{
		"nginx":               {"docker.io/library/nginx", "latest", ""},
		"nginx:1":             {"docker.io/library/nginx", "1", ""},
		"r.io:5000/a/b":       {"r.io:5000/a/b", "latest", ""},
		"r.io/a@" + digest:    {"r.io/a", "", digest},
		"r.io/a:v1@" + digest: {"r.io/a", "v1", digest},
	} {
		repository, tag, sum, err := ParseImageName(image)
		if got := [3]string{repository, tag, sum}; err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", image, got, err, want)
		}
	}
	for _, image := range []string{"", "A B", "https://r.io/a"} {
		if _, _, _, err := ParseImageName(image); err == nil {
			t.Errorf("%q has no error", image)
		}
	}
}

func TestRepositoryInFull(t *testing.T) {
	for name, want := range map[string]string{"nginx:1": "docker.io/library/nginx", "r.io:5000/a/b@sha256:" + strings.Repeat("a", 64): "r.io:5000/a/b", "": "", "A B": ""} {
		if got, err := Repository(name); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", name, got, err, want)
		}
	}
}

func TestAnImageWithoutAValidNameHasNoCredentials(t *testing.T) {
	if found := users(t, "r.io/A B", loginSecret("s", "r.io", "bob", "p")); len(found) != 0 {
		t.Errorf("found credentials of %q", found)
	}
}
