package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// CollectorRuntime has the images and the containers that use them. A *cri.Client implements it.
type CollectorRuntime interface {
	ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest, ...grpc.CallOption) (*runtimeapi.ImageFsInfoResponse, error)
	ListImages(context.Context, *runtimeapi.ListImagesRequest, ...grpc.CallOption) (*runtimeapi.ListImagesResponse, error)
	// ImageStatus is called if the images do not fit in a list.
	ImageStatus(context.Context, *runtimeapi.ImageStatusRequest, ...grpc.CallOption) (*runtimeapi.ImageStatusResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (*runtimeapi.ListContainersResponse, error)
	RemoveImage(context.Context, *runtimeapi.RemoveImageRequest, ...grpc.CallOption) (*runtimeapi.RemoveImageResponse, error)
	// Status returns the sandbox image, if the runtime reports it.
	Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error)
}

// CollectorPods returns the known containers without a call to the runtime. A *runtime.Cache implements it.
type CollectorPods interface {
	UIDs() []types.UID
	Get(pod types.UID) (*runtime.PodStatus, error)
}

// CollectorConfig configures a Collector.
type CollectorConfig struct {
	// Runtime lists and removes images. Required.
	Runtime CollectorRuntime
	// Leases are the leases from the Manager that returns images, see Manager.Leases. Required: an image
	// that a Manager has just returned must not be removed.
	Leases *Leases
	// Policy determines when images are removed.
	Policy GCPolicy
	// Keep lists images, by name or ID, that are never removed. The sandbox image need not be
	// listed if the runtime reports it: containerd 1 and CRI-O report it, containerd 2 pins it.
	Keep []string
	// Pods reports which images are in use, so that their last use is known although passes list
	// nothing. Default: only listed containers and leases count as use.
	Pods CollectorPods
	// AlwaysList makes each pass list the images, however much room there is, so that their age is
	// known when RemoveUnused is called. Default: below LowPercent a pass lists nothing.
	AlwaysList bool
	// Statfs returns the usage for the file system that contains the path. fs.ErrNotExist and
	// errors.ErrUnsupported mean that it is unknown. Default: statfs(2) on Linux; on other systems
	// the usage is unknown, and only MaxAge removes images.
	Statfs func(path string) (Disk, error)
	// Log receives a line for each removed image. Default: no log.
	Log logr.Logger
}

// ErrDiskFull is the error from a pass that could not free as much space as the policy requires:
// a kubelet reports it with the event FreeDiskSpaceFailed.
var ErrDiskFull = errors.New("images cannot make enough room on the disk")

const (
	// callTimeout limits each call: if a runtime does not respond, an image must not stay blocked for
	// requests that wait for its removal.
	callTimeout = 2 * time.Minute
	// After a failed removal, the next try follows after firstPause; the pause doubles with each further failure, up to
	// maxPause.
	firstPause = 5 * time.Minute
	maxPause   = 2 * time.Hour
)

// Collector removes images that no agent's container uses, when the disk gets full or the images are old. Its
// methods may be called concurrently.
type Collector struct {
	config CollectorConfig
	keep   map[string]bool // in normal form

	// turn is held during a pass. It guards the fields below.
	turn    chan struct{}
	records map[string]record // by ID, of the last list's images
	blind   bool              // the log already has the line that the disk's usage is unknown
	partial bool              // the log already has the line that the image list is too large
}

// record is a present image's state.
type record struct {
	seen  time.Time     // when the Collector first listed it
	due   time.Time     // when its removal may be retried
	pause time.Duration // the current back-off
}

// NewCollector returns a Collector. It does nothing until Collect is called.
func NewCollector(c CollectorConfig) (*Collector, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("image: CollectorConfig.Runtime is missing")
	case c.Leases == nil:
		return nil, errors.New("image: CollectorConfig.Leases is missing: images about to be used would not be known")
	}
	if err := validate(c.Policy); err != nil {
		return nil, err
	}
	if c.Statfs == nil {
		c.Statfs = statfs
	}
	keep := map[string]bool{}
	for i, name := range c.Keep {
		if name == "" {
			return nil, fmt.Errorf("image: CollectorConfig.Keep[%d] is empty", i)
		}
		keep[completed(name)] = true
	}
	c.Policy = withDefaults(c.Policy)
	return &Collector{config: c, keep: keep, turn: make(chan struct{}, 1), records: map[string]record{}}, nil
}

// Collect makes one pass. While there is enough room, and neither MaxAge nor AlwaysList is set, a pass is one call to the runtime
// and lists nothing; from LowPercent on it also lists images and containers. If the list is larger than a message, because a
// registry's images have texts of any length, a pass continues with the images that Leases know: those that the Manager has
// pulled, also before a restart if it has a Dir, and those that pods use. If an image cannot be removed, Collect continues with
// the next and retries in later passes, with back-off. The error joins all failures, and ErrDiskFull if there is still not enough
// room. Collect returns soon after ctx has ended.
func (c *Collector) Collect(ctx context.Context) error {
	if off(c.config.Policy) {
		return nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Now()
	c.notePods(now)
	disk, err := c.disk(ctx)
	if err != nil || !c.config.AlwaysList && !mustLook(c.config.Policy, disk) {
		return err
	}
	images, err := c.look(ctx, now)
	if err != nil {
		return err
	}
	return c.removeAll(ctx, images, DecideGC(images.stored(), disk, c.config.Policy, now))
}

// RemoveUnused removes all images that no container uses, however much room there is, except those
// younger than the policy's MinAge, which counts from when a pass first listed them: see
// AlwaysList. A node calls it before it evicts a pod because disk space is short. The error joins
// all failures.
func (c *Collector) RemoveUnused(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	now := time.Now()
	c.notePods(now)
	images, err := c.look(ctx, now)
	if err != nil {
		return err
	}
	return c.removeAll(ctx, images, decideUnused(images.stored(), c.config.Policy, now))
}

// notePods records which images the known pods use.
func (c *Collector) notePods(now time.Time) {
	if c.config.Pods == nil {
		return
	}
	for _, uid := range c.config.Pods.UIDs() {
		status, err := c.config.Pods.Get(uid)
		if err != nil || status == nil {
			continue
		}
		for i := range status.Containers {
			container := &status.Containers[i]
			c.config.Leases.noteUse(now, completed(cmp.Or(container.ImageID, container.ImageRef, container.Image)))
		}
	}
}

// disk returns the usage for the fullest file system with images, the zero Disk if
// unknown.
func (c *Collector) disk(ctx context.Context) (Disk, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := c.config.Runtime.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err = cri.Classify(err); err != nil && !errors.Is(err, cri.ErrUnimplemented) {
		return Disk{}, fmt.Errorf("image: where images are: %w", err)
	}
	var fullest Disk
	for _, f := range resp.GetImageFilesystems() {
		disk, err := c.config.Statfs(f.GetFsId().GetMountpoint())
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errors.ErrUnsupported):
			continue
		case err != nil:
			return Disk{}, fmt.Errorf("image: how full the disk is: %w", err)
		}
		fullest = fuller(fullest, disk)
	}
	if blind := fullest.Capacity == 0; blind != c.blind {
		c.blind = blind
		c.config.Log.Info("how full the images' disk is", "known", !blind)
	}
	return fullest, nil
}

// fuller returns the file system with the higher usage.
func fuller(a, b Disk) Disk {
	if b.Capacity == 0 || a.Capacity > 0 && float64(a.used())/float64(a.Capacity) >= float64(b.used())/float64(b.Capacity) {
		return a
	}
	return b
}
