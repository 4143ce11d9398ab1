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
	// Changed is called when a ClusterTrustBundle has changed, and when a PodCertificateRequest has a result. It must
	// return quickly. Default: none.
	Changed func()
	// Node returns the Node as the API server knows it, without a UID before its registration. Default: pods get no
	// PodCertificates.
	Node func() *v1.Node
	// Pods returns the node's pods, and those that still run. The keys of other pods are forgotten. Required with Node.
	Pods func() []*v1.Pod
}

// Projections provides certificates for projected volumes. It implements volume.Projections.
type Projections struct {
	config Config

	// starting is held by the call that looks for ClusterTrustBundles' version.
	starting chan struct{}
	// generating is held by the call that makes a key.
	generating chan struct{}
	running    sync.WaitGroup

	mu      sync.Mutex
	stopped bool
	// bundles is nil before the first use. missing is why there are none, until retry.
	bundles *bundles
	missing error
	retry   time.Time

	credentials map[credentialKey]*credential
	// requests is nil before the first use.
	requests requests
}

var _ volume.Projections = (*Projections)(nil)

// refreshInterval is the interval at which a volume is compared with its sources, in addition to Config.Changed.
const refreshInterval = time.Minute

// housekeepingInterval is the interval of checks for keys that no pod needs.
const housekeepingInterval = time.Minute

// New returns Projections, which make no request before the first Project.
func New(c Config) (*Projections, error) {
	if c.Kube == nil {
		return nil, errors.New("projections: Config.Kube is missing")
	}
	if c.Node != nil && c.Pods == nil {
		return nil, errors.New("projections: Config.Pods is missing, which Config.Node requires")
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return &Projections{config: c, starting: make(chan struct{}, 1), generating: make(chan struct{}, 1), credentials: map[credentialKey]*credential{}}, nil
}

// Run renews certificates and watches bundles until ctx ends, and returns when all its goroutines have ended. Project then
// returns an error.
func (p *Projections) Run(ctx context.Context) {
	for sleep(ctx, housekeepingInterval) {
		if p.config.Pods != nil {
			p.releaseOrphaned()
		}
	}
	p.mu.Lock()
	p.stopped = true
	if p.bundles != nil {
		p.bundles.cancel()
	}
	for _, c := range p.credentials {
		c.cancel()
	}
	p.mu.Unlock()
	p.running.Wait()
}

// Project returns the files of a source of a projected volume.
func (p *Projections) Project(ctx context.Context, pod *v1.Pod, vol *v1.Volume, index int) (volume.Projected, error) {
	if s := vol.Projected.Sources[index].ClusterTrustBundle; s != nil {
		text, err := p.trustBundle(ctx, s)
		if err != nil {
			return volume.Projected{}, fmt.Errorf("clusterTrustBundle: %w", err)
		}
		return volume.Projected{Files: map[string][]byte{s.Path: text}, Next: time.Now().Add(refreshInterval)}, nil
	}
	files, err := p.podCertificate(ctx, pod, vol, index)
	if err != nil {
		return volume.Projected{}, fmt.Errorf("podCertificate: %w", err)
	}
	return volume.Projected{Files: files, Secret: true, Next: time.Now().Add(refreshInterval)}, nil
}
