package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/gc"
	"github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/loop"
)

const (
	// containerInterval is the time between two removals of dead containers. imageInterval is the time
	// between two checks of the images' disk.
	containerInterval = time.Minute
	imageInterval     = 5 * time.Minute
)

// containerGC removes dead containers, sandboxes and logs.
type containerGC struct {
	collector *gc.Collector
	log       logr.Logger
	// mu is held during a pass, because an eviction may start a pass, too.
	mu sync.Mutex
}

// makeContainerGC returns nil if NoContainerGC is set.
func (c *Config) makeContainerGC() (*containerGC, error) {
	if c.NoContainerGC {
		return nil, nil
	}
	config := gc.Config{Pods: c.Cache, Runtime: c.Client}
	if config.LogsRoot = c.logsRoot(); config.LogsRoot != "" {
		config.LogLinks = c.Sync.Node.LogLinks
	}
	collector, err := gc.New(config)
	if err != nil {
		return nil, fmt.Errorf("agent: Config.NoContainerGC is false: %w", err)
	}
	return &containerGC{collector: collector, log: c.Log}, nil
}

// Run collects at intervals until ctx ends.
func (g *containerGC) Run(ctx context.Context, host loop.Host) error {
	every(ctx, host, containerInterval, func() {
		if err := g.collect(ctx, host); err != nil && ctx.Err() == nil {
			g.log.Error(err, "not collected")
		}
	})
	return nil
}

func (g *containerGC) collect(ctx context.Context, host loop.Host) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.collector.Collect(ctx, podStates{host})
}

// podStates is the gc.PodStates of an agent.
type podStates struct{ loop.Host }

// AllShouldBeRemoved follows the kubelet, which removes the dead containers in a pod that was evicted, or that was deleted and
// has stopped. It does not wait for the pod's last status and its volumes: on a full disk neither may come to an end. The pod
// from an earlier agent that no source has is left to its worker: otherwise both would remove its sandbox.
func (p podStates) AllShouldBeRemoved(pod types.UID) bool {
	s := p.State(pod)
	return s.Known && s.Removal != podworkers.Unknown && s.ContentShouldBeRemoved && s.ContainersShouldBeTerminating
}

// imageGC removes images that no container uses.
type imageGC struct {
	collector *image.Collector
	node      nodeEvents
	log       logr.Logger
}

// makeImageGC returns nil if NoImageGC is set. The collector and the manager of pulls share their leases.
func (c *Config) makeImageGC(manager *image.Manager) (*imageGC, error) {
	if c.NoImageGC {
		return nil, nil
	}
	collector, err := image.NewCollector(image.CollectorConfig{
		Runtime: c.Client, Leases: manager.Leases(), Policy: c.ImagePolicy, Pods: c.Cache, Log: c.Log,
		AlwaysList: !c.NoEviction, // an eviction may need to remove all of them
	})
	if err != nil {
		return nil, fmt.Errorf("agent: Config.ImagePolicy: %w", err)
	}
	return &imageGC{collector: collector, node: nodeEvents(c.NodeName), log: c.Log}, nil
}

// Run collects at intervals until ctx ends.
func (g *imageGC) Run(ctx context.Context, host loop.Host) error {
	every(ctx, host, imageInterval, func() {
		err := g.collector.Collect(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		g.log.Error(err, "images not collected")
		reason := syncpod.EventImageGCFailed
		if errors.Is(err, image.ErrDiskFull) {
			reason = syncpod.EventFreeDiskSpaceFailed
		}
		g.node.warn(host.Events(), reason, err.Error())
	})
	return nil
}
