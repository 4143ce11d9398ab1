package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/must"
)

// registry is a runtime with images and the registry it pulls from.
type registry struct {
	pullTime time.Duration
	// lag is how long an image is present before its pull returns.
	lag time.Duration
	// stubborn pulls continue after their context has ended.
	stubborn bool
	// password, if set, is required for a pull.
	password string
	// fails, if set, is the error of every pull.
	fails error
	// inspect, if set, is the answer to every ImageStatus.
	inspect error

	mu       sync.Mutex
	present  map[string]bool
	aliases  map[string]string // further image names
	pulls    []string          // image and user, in the order they began
	canceled int
	running  int
	most     int // pulls that ever ran at once
}

func (r *registry) ImageStatus(ctx context.Context, req *runtimeapi.ImageStatusRequest, _ ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inspect != nil {
		return nil, r.inspect
	}
	name := req.GetImage().GetImage()
	if other := r.aliases[name]; other != "" {
		name = other
	}
	if r.present[name] {
		return &runtimeapi.ImageStatusResponse{Image: stored(name)}, nil
	}
	return &runtimeapi.ImageStatusResponse{}, ctx.Err()
}

// stored returns an image whose other names derive from its tag.
func stored(name string) *runtimeapi.Image {
	return &runtimeapi.Image{Id: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(name))), RepoTags: []string{name}, Uid: &runtimeapi.Int64Value{Value: 1000}, Size: 42}
}

func (r *registry) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest, _ ...grpc.CallOption) (*runtimeapi.PullImageResponse, error) {
	name := req.GetImage().GetImage()
	r.begin(name, req.GetAuth())
	defer r.end()
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	defer time.Sleep(r.lag)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.fails != nil:
		return nil, r.fails
	case r.password != "" && req.GetAuth().GetPassword() != r.password:
		return nil, status.Error(codes.Unknown, fmt.Sprintf("pull %s: 401 for password %q", name, req.GetAuth().GetPassword()))
	}
	r.add(name)
	return &runtimeapi.PullImageResponse{ImageRef: stored(name).Id}, nil
}

func (r *registry) begin(name string, auth *runtimeapi.AuthConfig) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if auth != nil {
		name += " as " + auth.GetUsername()
	}
	r.pulls = append(r.pulls, name)
	r.running++
	r.most = max(r.most, r.running)
}

func (r *registry) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
}

func (r *registry) wait(ctx context.Context) error {
	if r.stubborn {
		time.Sleep(r.pullTime)
		return nil
	}
	select {
	case <-time.After(r.pullTime):
		return nil
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		r.canceled++
		return status.FromContextError(ctx.Err()).Err()
	}
}

// gaveUp returns how many pulls ended because their context ended.
func (r *registry) gaveUp() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.canceled
}

func (r *registry) setInspect(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inspect = err
}

func (r *registry) alias(alias, name string) {
	if r.aliases == nil {
		r.aliases = map[string]string{}
	}
	r.aliases[alias] = name
}

func (r *registry) add(name string) {
	if r.present == nil {
		r.present = map[string]bool{}
	}
	r.present[name] = true
}

func newTestManager(t *testing.T, c Settings) *Manager {
	t.Helper()
	return newTestManagerWith(t, Config{Settings: c})
}

func newTestManagerWith(t *testing.T, c Config) *Manager {
	t.Helper()
	m := must.Get(New(c))(t)
	t.Cleanup(m.Wait)
	return m
}

// loginSecret returns a pull secret with one user for one registry.
func loginSecret(name, registry, user, password string) v1.Secret {
	return v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Type:       v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil,
			`{"auths":{%q:{"username":%q,"password":%q}}}`, registry, user, password)},
	}
}
