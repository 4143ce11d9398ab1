package image

import (
	"errors"
	"fmt"

	"github.com/distribution/reference"
)

// imageRef is the parsed name of an image in a pod's spec.
type imageRef struct {
	// pull is the name passed to the runtime: the name as given, with the tag "latest" if it has
	// neither tag nor digest. Short names stay short, because the runtime resolves them.
	pull string
	// repository is the full name without tag and digest, "docker.io/library/nginx"
	// for "nginx". Credentials are matched against it.
	repository string
	// full is the full name with tag and digest as in Pull.
	full string
}

// parseReference parses an image name. The error is the reason why the name is invalid.
func parseReference(name string) (imageRef, error) {
	if name == "" {
		return imageRef{}, errors.New("the image's name is empty")
	}
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return imageRef{}, fmt.Errorf("image %q: %w", name, err)
	}
	ref := imageRef{pull: name, repository: named.Name(), full: named.String()}
	if reference.IsNameOnly(named) {
		ref.pull += ":latest"
		ref.full += ":latest"
	}
	return ref, nil
}

// isLatest reports whether the tag is "latest", for which the API defaults to the policy Always. As
// in the API, a digest makes no difference.
func (r imageRef) isLatest() bool {
	named, err := reference.ParseNormalizedNamed(r.pull)
	if err != nil {
		return false
	}
	tagged, isTagged := named.(reference.Tagged)
	return isTagged && tagged.Tag() == "latest"
}

// normal returns the normalized form in which names are compared: in full, without the tag if there
// is a digest. Identifiers and names that do not parse are returned unchanged.
func normal(name string) string {
	ref, err := reference.ParseAnyReference(name)
	if err != nil {
		return name
	}
	if digested, ok := ref.(reference.Canonical); ok {
		if canonical, err := reference.WithDigest(reference.TrimNamed(digested), digested.Digest()); err == nil {
			return canonical.String()
		}
	}
	return ref.String()
}

// completed returns the normalized name, with the tag "latest" if it has neither tag nor digest.
func completed(name string) string {
	ref, err := reference.ParseAnyReference(name)
	if err != nil {
		return name
	}
	if named, ok := ref.(reference.Named); ok {
		name = reference.TagNameOnly(named).String()
	}
	return normal(name)
}

// tagged returns a name that has both tag and digest without the digest, and
// false for any other.
func tagged(name string) (string, bool) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", false
	}
	t, hasTag := named.(reference.Tagged)
	if _, hasDigest := named.(reference.Digested); !hasTag || !hasDigest {
		return "", false
	}
	return named.Name() + ":" + t.Tag(), true
}

// repositoryOf returns the repository of a name in full, empty for an identifier.
func repositoryOf(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return named.Name()
}

// Repository returns the repository of an image in full, such as "docker.io/library/nginx" for "nginx:1". Credentials are
// matched against it, see [Matches].
func Repository(name string) (string, error) {
	ref, err := parseReference(name)
	return ref.repository, err
}
