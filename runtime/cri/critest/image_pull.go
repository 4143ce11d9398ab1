package critest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
)

// PullImage takes the image's PullTime, checks the credentials and adds the image to the node. A pull
// whose caller disconnects has no effect.
func (s service) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref := req.GetImage().GetImage()
	if !reference.MatchString(completeName(ref)) {
		return nil, status.Errorf(codes.Unknown, "failed to parse image reference %q: invalid reference format", ref)
	}
	remote, err := s.find(ref, req.GetAuth())
	if err != nil {
		return nil, err
	}
	if err := inject.Pause(ctx, remote.PullTime); err != nil {
		return nil, err
	}
	if err := midway(ctx); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := remote.refusal(completeName(ref)); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &runtimeapi.PullImageResponse{ImageRef: remote.ID}, s.images.add(remote.Image)
}

// refusal returns containerd's error for a registry that answers with an HTTP status, or with another digest.
func (i RemoteImage) refusal(name string) error {
	host, path, _ := strings.Cut(repository(name), "/")
	repo, want, byDigest := strings.Cut(name, "@")
	manifest := want
	if !byDigest {
		manifest = strings.TrimPrefix(repo, repository(name)+":")
	}
	at := fmt.Sprintf("https://%s/v2/%s/manifests/%s: %d %s", host, path, manifest, i.Status, http.StatusText(i.Status))
	code, why := codes.Unknown, "unexpected status from HEAD request to "+at
	switch {
	case i.Status == http.StatusUnauthorized:
		why = "failed to authorize: failed to fetch anonymous token: unexpected status from GET request to " + at
	case i.Status == http.StatusForbidden:
		why = "pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials"
	case i.Status == http.StatusNotFound:
		code, why = codes.NotFound, name+": not found"
	case i.Status != 0 && i.Status != http.StatusOK:
	case byDigest && want != i.Digest:
		return status.Errorf(codes.FailedPrecondition, "failed to pull and unpack image %q: failed commit on ref \"manifest-%s\": unexpected commit digest %s, expected %s", name, want, i.Digest, want)
	default:
		return nil
	}
	return status.Errorf(code, "failed to pull and unpack image %q: failed to resolve reference %q: %s", name, name, why)
}

// published finds an image by its name in the registry, or by its digest, which the node then has as its name.
func (s imageStore) published(name string) (RemoteImage, bool) {
	if i, ok := s.remote[name]; ok {
		return i, true
	}
	for _, n := range slices.Sorted(maps.Keys(s.remote)) {
		if i := s.remote[n]; strings.Contains(name, "@") && i.ref() == name {
			i.Name = name
			return i, true
		}
	}
	return RemoteImage{}, false
}

func (s service) find(ref string, auth *runtimeapi.AuthConfig) (RemoteImage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := completeName(ref)
	registry, _, _ := strings.Cut(name, "/")
	host, _, _ := strings.Cut(registry, ":")
	remote, ok := s.images.published(name)
	switch {
	case !ok && s.images.any && strings.HasSuffix("."+host, ".invalid"): // RFC 6761
		return remote, status.Errorf(codes.Unknown, "failed to pull and unpack image %q: failed to resolve reference %q: dial tcp: lookup %s: no such host", name, name, host)
	case !ok && s.images.any:
		return RemoteImage{Image: Image{Name: ref}.withDefaults()}, nil
	case !ok:
		return remote, status.Errorf(codes.NotFound, "failed to pull and unpack image %q: failed to resolve reference %q: %s: not found", name, name, name)
	case len(remote.Credentials) > 0 && !slices.ContainsFunc(remote.Credentials, func(a *runtimeapi.AuthConfig) bool {
		return sameCredentials(a, auth)
	}):
		return remote, status.Errorf(codes.Unknown,
			"failed to pull and unpack image %q: failed to resolve reference %q: pull access denied, repository does not exist or may require authorization", name, name)
	}
	return remote, nil
}

// sameCredentials reports whether a registry treats both as the same login.
func sameCredentials(a, b *runtimeapi.AuthConfig) bool {
	return a.GetUsername() == b.GetUsername() && a.GetPassword() == b.GetPassword() && a.GetAuth() == b.GetAuth() &&
		a.GetIdentityToken() == b.GetIdentityToken() && a.GetRegistryToken() == b.GetRegistryToken()
}

// SetCredentials changes which credentials can pull an image. If there are none, no credentials are
// needed.
func (r *Runtime) SetCredentials(image string, credentials ...*runtimeapi.AuthConfig) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := completeName(image)
	remote, ok := r.images.remote[name]
	if !ok {
		return fmt.Errorf("critest: image %q is not in Config.Registry", image)
	}
	remote.Credentials = cloneAuth(credentials)
	r.images.remote[name] = remote
	return nil
}

func cloneAuth(credentials []*runtimeapi.AuthConfig) []*runtimeapi.AuthConfig {
	var clones []*runtimeapi.AuthConfig
	for _, a := range credentials {
		clones = append(clones, proto.CloneOf(a))
	}
	return clones
}
