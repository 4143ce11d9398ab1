package critest

import (
	"context"
	"fmt"
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images.local[remote.Name] = remote.Image
	return &runtimeapi.PullImageResponse{ImageRef: remote.ID}, nil
}

func (s service) find(ref string, auth *runtimeapi.AuthConfig) (RemoteImage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := completeName(ref)
	registry, _, _ := strings.Cut(name, "/")
	host, _, _ := strings.Cut(registry, ":")
	remote, ok := s.images.remote[name]
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
