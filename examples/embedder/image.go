package embedder

import (
	"context"
	"errors"
	"maps"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/image"
)

var errDenied = errors.New("denied: the password is wrong")

// Store is an image service of one's own: images by their names, and the password with which each may be pulled.
type Store struct {
	Present, Registry map[string]string
	Pulls             int
}

// ImageStatus returns a present image.
func (s *Store) ImageStatus(_ context.Context, r *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	name := r.GetImage().GetImage()
	if _, ok := s.Present[name]; !ok {
		return &runtimeapi.ImageStatusResponse{}, nil
	}
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: "id of " + name, RepoTags: []string{name}}}, nil
}

// PullImage pulls an image.
func (s *Store) PullImage(_ context.Context, r *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	name := r.GetImage().GetImage()
	s.Pulls++
	if password := s.Registry[name]; password != r.GetAuth().GetPassword() {
		return nil, errDenied
	}
	maps.Copy(s.Present, map[string]string{name: ""})
	return &runtimeapi.PullImageResponse{ImageRef: "id of " + name}, nil
}

// Ensure returns the ID of a container's image when it is present. The caller releases the image when the container is created.
func Ensure(ctx context.Context, images *image.Manager, pod *v1.Pod, c *v1.Container, secrets []v1.Secret) (id string, release func(), err error) {
	img, err := images.EnsureImageExists(ctx, image.Request{Image: c.Image, Policy: c.ImagePullPolicy, PodUID: pod.UID, Secrets: secrets})
	if err != nil {
		return "", nil, err // an *image.Error has the reason, and when to retry
	}
	return img.ID, img.Release, nil
}
