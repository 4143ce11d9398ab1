package keyring

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/distribution/reference"
)

// ParseImageName returns the parts in an image's name in a pod's spec: the repository in full, such as
// "docker.io/library/nginx" for "nginx", the tag and the digest. The tag is "latest" if the name has neither.
func ParseImageName(image string) (repository, tag, digest string, err error) {
	if image == "" {
		return "", "", "", errors.New("the image's name is empty")
	}
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", "", "", fmt.Errorf("image %q: %w", image, err)
	}
	if digested, ok := named.(reference.Digested); ok {
		digest = digested.Digest().String()
	}
	if tagged, ok := named.(reference.Tagged); ok {
		tag = tagged.Tag()
	} else if digest == "" {
		tag = "latest"
	}
	return named.Name(), tag, digest, nil
}

// Repository returns an image's repository in full, such as "docker.io/library/nginx" for "nginx:1". Credentials are
// matched against it, see [Matches].
func Repository(image string) (string, error) {
	repository, _, _, err := ParseImageName(image)
	return repository, err
}

// Matches reports whether a credential's pattern, such as "*.azurecr.io" or "registry.io:8080/path", matches a repository's full
// name, as [Repository] returns it. Both hosts have equally many labels, and path.Match matches each label. The ports are equal.
// The pattern's path prefixes the repository's path.
func Matches(pattern, repository string) bool {
	p, r := splitLocation(pattern), splitLocation(repository)
	if p.port != r.port || !strings.HasPrefix(r.path, p.path) {
		return false
	}
	patterns, labels := strings.Split(p.host, "."), strings.Split(r.host, ".")
	if len(patterns) != len(labels) {
		return false
	}
	for i := range labels {
		if ok, err := path.Match(patterns[i], labels[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// place is a location in parts.
type place struct{ host, port, path string }

func splitLocation(location string) place {
	host, path, _ := strings.Cut(location, "/")
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return place{host[:i], host[i+1:], path}
	}
	return place{host, "", path}
}
