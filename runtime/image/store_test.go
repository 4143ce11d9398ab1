package image_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/cri/critest"
	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/must"
	"github.com/podsync/podsync/runtime/image"
)

// store is a runtime in memory on a disk that a test fills, with an agent's Manager and
// Collector.
type store struct {
	annotations map[string]string // of containers that are made
	*critest.Runtime
	t         *testing.T
	client    *cri.Client
	manager   *image.Manager
	collector *image.Collector
	used      uint64 // GiB of 100
}

// localImages returns images of 10 GiB.
func localImages(names ...string) []critest.Image {
	var local []critest.Image
	for _, name := range names {
		local = append(local, critest.Image{Name: "r.io/" + name + ":v1", ID: idOf(name), Size: 10 * gib})
	}
	return local
}

// idOf returns the ID of an image with a short name.
func idOf(name string) string { return fmt.Sprintf("sha256:%064x", name) }

// nameOf returns the short name of an image with an ID.
func nameOf(id string) string {
	name, err := hex.DecodeString(strings.TrimPrefix(id, "sha256:"))
	if err != nil {
		return id
	}
	return strings.TrimLeft(string(name), "\x00")
}

func newStore(t *testing.T, local []critest.Image, change func(*image.CollectorConfig)) *store {
	t.Helper()
	var registry []critest.RemoteImage
	for _, img := range append(local, localImages("new")...) {
		registry = append(registry, critest.RemoteImage{Image: img})
	}
	r, conn := critest.Start(t, critest.Config{Images: local, Registry: registry})
	s := &store{Runtime: r, t: t, client: cri.NewClient(conn), used: 50}
	var err error
	if s.manager, err = image.New(image.Config{Settings: image.Settings{Runtime: s.client}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.manager.Wait)
	config := image.CollectorConfig{
		Runtime: s.client, Leases: s.manager.Leases(),
		Statfs: func(string) (image.Disk, error) { return full(s.used), nil },
	}
	if change != nil {
		change(&config)
	}
	if s.collector, err = image.NewCollector(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// collect makes a pass at the given usage of the disk, and returns its calls.
func (s *store) collect(used uint64) critest.Journal {
	s.t.Helper()
	calls, err := s.tryCollect(used)
	if err != nil {
		s.t.Error(err)
	}
	return calls
}

func (s *store) tryCollect(used uint64) (critest.Journal, error) {
	s.used = used
	before := len(s.Journal())
	err := s.collector.Collect(s.t.Context())
	return s.Journal().After(before), err
}

// removals returns the images in RemoveImage calls.
func removals(j critest.Journal) string {
	var names []string
	for _, call := range j.Of(critest.RemoveImage) {
		names = append(names, nameOf(call.Image))
	}
	return strings.Join(names, " ")
}

// wantRemoved makes two passes at the given usage of the disk: one that lists the images, and one when they are old
// enough.
func (s *store) wantRemoved(used uint64, want string) {
	s.t.Helper()
	s.collect(used)
	time.Sleep(5 * time.Minute)
	if got := removals(s.collect(used)); got != want {
		s.t.Errorf("%q was removed, want %q", got, want)
	}
}

func (s *store) ensure(name string) *image.Image {
	s.t.Helper()
	img, err := s.manager.EnsureImageExists(s.t.Context(), image.Request{Image: "r.io/" + name + ":v1", Policy: v1.PullIfNotPresent})
	must.Do(s.t, err)
	return img
}

// use starts a container of an image without a lease, and returns its ID.
func (s *store) use(name string) string {
	s.t.Helper()
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: name}}
	box := must.Get(s.client.RunPodSandbox(s.t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox}))(s.t)
	id := must.Get(s.create(box.GetPodSandboxId(), sandbox, name))(s.t)
	return id
}

func (s *store) create(box string, sandbox *runtimeapi.PodSandboxConfig, name string) (string, error) {
	resp, err := s.client.CreateContainer(s.t.Context(), &runtimeapi.CreateContainerRequest{PodSandboxId: box, SandboxConfig: sandbox, Config: &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: "r.io/" + name + ":v1"},
		Annotations: s.annotations,
	}})
	return resp.GetContainerId(), err
}

func (s *store) inject(f faults.Fault) {
	s.t.Helper()
	must.Get(s.Inject(f))(s.t)
}
