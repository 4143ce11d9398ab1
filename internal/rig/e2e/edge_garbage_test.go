package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	images "github.com/podsync/podsync/runtime/image"
)

// careful is a runtime that only records the requested image removals.
type careful struct {
	*cri.Client
	removed map[string]bool // by ID
}

func (c careful) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest, _ ...grpc.CallOption) (*runtimeapi.RemoveImageResponse, error) {
	c.removed[req.GetImage().GetImage()] = true
	return &runtimeapi.RemoveImageResponse{}, nil
}

// removable returns the images that a collector would remove from a full disk.
func (e *edge) removable() map[string]bool {
	e.t.Helper()
	runtime := careful{e.client, map[string]bool{}}
	seen := ""
	c := must.Get(images.NewCollector(images.CollectorConfig{
		Runtime: runtime, Leases: &images.Leases{}, Policy: images.GCPolicy{MinAge: 1},
		Statfs: func(path string) (images.Disk, error) {
			seen = path
			return images.Disk{Capacity: 1 << 60}, nil
		},
	}))(e.t)
	for range 2 {
		_ = c.Collect(e.t.Context()) // it does not make enough room
		time.Sleep(time.Millisecond)
	}
	if !filepath.IsAbs(seen) {
		e.t.Errorf("images are at %q", seen)
	}
	return runtime.removed
}

func (e *edge) imageID(name string) string {
	e.t.Helper()
	resp, err := e.client.ImageStatus(e.t.Context(), &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
	if err != nil || resp.GetImage() == nil {
		e.t.Fatalf("%s: %v, %v", name, resp, err)
	}
	return resp.GetImage().GetId()
}

// G1: whatever names a runtime reports, the image of sandboxes is kept, and so is the image of a container that has never
// run.
func TestEdgeG1_ImagesInUseStay(t *testing.T) {
	onEdges(t, func(t *testing.T, e *edge) {
		pause, busybox := e.imageID("localhost/pause:e2e"), e.imageID("localhost/busybox:e2e")
		if gone := e.removable(); gone[pause] || !gone[busybox] {
			t.Errorf("removed are %v, want %s among them, and not %s", gone, busybox, pause)
		}
		config := e.config("garbage")
		sb := e.sandbox(config)
		must.Get(e.client.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: sb.ID, SandboxConfig: config, Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: busybox}, Command: []string{"true"},
		}}))(t)
		if gone := e.removable(); gone[pause] || gone[busybox] {
			t.Errorf("%v are removed, and in use", gone)
		}
	})
}
