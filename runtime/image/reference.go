package image

import (
	"strings"

	"github.com/distribution/reference"

	"github.com/podsync/podsync/runtime/image/keyring"
)

// imageRef is an image's parsed name in a pod's spec.
type imageRef struct {
	// pull is the name passed to the runtime: the name as given, with the tag "latest" if it has
	// neither tag nor digest. Short names stay short, because the runtime resolves them.
	pull string
	// repository is the full name without tag and digest, "docker.io/library/nginx" for "nginx".
	repository string
	// full is the full name with tag and digest as in pull.
	full string
	tag  string
}

// parseReference parses an image name. The error is the reason why the name is invalid.
func parseReference(name string) (imageRef, error) {
	repository, tag, digest, err := keyring.ParseImageName(name)
	if err != nil {
		return imageRef{}, err
	}
	ref := imageRef{pull: name, repository: repository, full: repository, tag: tag}
	if tag != "" {
		ref.full += ":" + tag
	}
	if digest != "" {
		ref.full += "@" + digest
	} else if !strings.HasSuffix(name, ":"+tag) {
		ref.pull += ":" + tag
	}
	return ref, nil
}

// isLatest reports whether the tag is "latest", for which the API defaults to the policy Always. As
// in the API, a digest makes no difference.
func (r imageRef) isLatest() bool { return r.tag == "latest" }

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

// tagged removes the digest from a name that has a tag, too. It returns false for any
// other name.
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

// repositoryOf returns a name's repository in full, empty for an identifier.
func repositoryOf(name string) string {
	repository, err := keyring.Repository(name)
	if err != nil {
		return ""
	}
	return repository
}
