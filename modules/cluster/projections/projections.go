package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podsync/podsync/syncpod/volume"
)

// Config configures Projections.
type Config struct {
	// Kube is the API server. Required.
	Kube kubernetes.Interface
	// Changed is called when a ClusterTrustBundle has changed. It must return quickly. Default: none.
	Changed func()
}

// Projections provides certificates for projected volumes. It implements volume.Projections.
type Projections struct {
	config Config

	// starting is held by the call that looks for the version of ClusterTrustBundles.
	starting chan struct{}
	running  sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	// bundles is nil before the first use. missing is why there are none, until retry.
	bundles *bundles
	missing error
	retry   time.Time
}

var _ volume.Projections = (*Projections)(nil)

// refreshInterval is the interval at which a volume is compared with the bundles, in addition to Config.Changed.
const refreshInterval = time.Minute

// New returns Projections, which make no request before the first Project.
func New(c Config) (*Projections, error) {
	if c.Kube == nil {
		return nil, errors.New("projections: Config.Kube is missing")
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return &Projections{config: c, starting: make(chan struct{}, 1)}, nil
}

// Run ends the watches when ctx ends, and returns when they have ended. Project then fails.
func (p *Projections) Run(ctx context.Context) {
	<-ctx.Done()
	p.mu.Lock()
	p.stopped = true
	if p.bundles != nil {
		p.bundles.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Project returns the files of a source of a projected volume.
func (p *Projections) Project(ctx context.Context, _ *v1.Pod, vol *v1.Volume, index int) (volume.Projected, error) {
	s := vol.Projected.Sources[index].ClusterTrustBundle
	if s == nil {
		return volume.Projected{}, errors.New("podCertificate: this node does not request certificates for pods")
	}
	text, err := p.trustBundle(ctx, s)
	if err != nil {
		return volume.Projected{}, fmt.Errorf("clusterTrustBundle: %w", err)
	}
	return volume.Projected{Files: map[string][]byte{s.Path: text}, Next: time.Now().Add(refreshInterval)}, nil
}
