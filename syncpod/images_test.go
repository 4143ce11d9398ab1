package syncpod_test

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
)

// With a Root, the next agent knows which pods may use an image, without further configuration.
func TestImagesWithARootOutliveTheAgent(t *testing.T) {
	const name = "r.io/private:v1"
	bob := &runtimeapi.AuthConfig{Username: "bob", Password: "right"}
	_, conn := critest.Start(t, critest.Config{Registry: []critest.RemoteImage{{Image: critest.Image{Name: name}, Credentials: []*runtimeapi.AuthConfig{bob}}}})
	secret := v1.Secret{Data: map[string][]byte{v1.DockerConfigKey: []byte(`{"r.io": {"username": "bob", "password": "right"}}`)}}
	config := syncpod.Config{Client: cri.NewClient(conn), RuntimeName: "critest", Root: t.TempDir()}
	ensure := func(req image.Request) error {
		syncer, err := syncpod.New(config)
		if err != nil {
			t.Fatal(err)
		}
		manager := syncer.Images().(*image.Manager)
		defer manager.Wait()
		img, err := manager.EnsureImageExists(t.Context(), req)
		if err == nil {
			img.Release()
		}
		return err
	}
	if err := ensure(image.Request{Image: name, Secrets: []v1.Secret{secret}}); err != nil {
		t.Fatal(err)
	}
	if err := ensure(image.Request{Image: name, Policy: v1.PullNever}); !errors.Is(err, image.ErrImageNeverPull) {
		t.Errorf("without the secret: %v", err)
	}
	if err := ensure(image.Request{Image: name, Policy: v1.PullNever, Secrets: []v1.Secret{secret}}); err != nil {
		t.Errorf("with the secret: %v", err)
	}
}
