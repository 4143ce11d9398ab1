package image

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
)

// Config is what a Manager needs.
type Config struct {
	// Runtime has the images and pulls them. Required.
	Runtime cri.ImagePuller
	// MaxParallelPulls bounds how many pulls run at once; further ones wait, first
	// come first served. Images that are there already never wait. Default 5;
	// negative for no bound.
	MaxParallelPulls int
	// InitialBackOff is the pause after a first failed pull, which doubles with each
	// further one up to MaxBackOff. Default 10 s and 5 min, as in a kubelet: those
	// of package backoff.
	InitialBackOff, MaxBackOff time.Duration
	// Leases are shared with whoever removes images, and live as long as the
	// Manager: it is told there of images that are gone. Default: the Manager's
	// own, which nobody else sees.
	Leases *Leases
	// ShareImages lets every pod use every image that is there. By default a pod
	// needs, for an image that this Manager has pulled with a credential, one that
	// has pulled it; with others it is pulled again, which the registry has to
	// allow, as in a kubelet from v1.35 on (KEP-2535).
	ShareImages bool
	// VerifyPreloaded reports whether images of a repository that no agent has pulled need a
	// credential too, or a pull without one. Default: none does, as with a kubelet's policy
	// NeverVerifyPreloadedImages.
	VerifyPreloaded func(repository string) bool
	// Dir is a directory in which the Manager keeps who may use which image over restarts of
	// the agent. It holds hashes of credentials. Without it every image is a preloaded one
	// after a restart.
	Dir string
	// Log gets records of Dir that cannot be read or written.
	Log logr.Logger
	// Observer is told of pulls. Default: nobody is.
	Observer Observer
	// progressInterval is how often Observer.PullProgress is called. Default 10 s.
	progressInterval time.Duration
}

const (
	defaultParallelPulls    = 5
	defaultProgressInterval = 10 * time.Second
)

// Manager makes sure that images are there. All methods may be called
// concurrently.
type Manager struct {
	config  Config
	flights flights
	retries *retries
	access  access
	// slots holds a token for each pull that runs, nil if there is no bound.
	// Goroutines that wait to send on a channel get their turn in order.
	slots chan struct{}
}

// New returns a Manager. It makes no call and starts nothing.
func New(c Config) (*Manager, error) {
	if c.Runtime == nil {
		return nil, errors.New("image: Config.Runtime is missing")
	}
	c.MaxParallelPulls = cmp.Or(c.MaxParallelPulls, defaultParallelPulls)
	c.progressInterval = cmp.Or(c.progressInterval, defaultProgressInterval)
	if c.progressInterval < 0 {
		return nil, errors.New("image: Config.ProgressInterval is negative")
	}
	retries, err := newRetries(c.InitialBackOff, c.MaxBackOff)
	if err != nil {
		return nil, fmt.Errorf("image: Config.InitialBackOff and MaxBackOff: %w", err)
	}
	if c.Leases == nil {
		c.Leases = &Leases{}
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	m := &Manager{config: c, retries: retries}
	m.access.files, m.access.verify = newAccessFiles(c.Dir, c.Log), c.VerifyPreloaded
	c.Leases.observe(m.access.removed)
	if c.MaxParallelPulls > 0 {
		m.slots = make(chan struct{}, c.MaxParallelPulls)
	}
	return m, nil
}

// Forget drops the failures noted for a pod that is gone. Without it they are
// dropped when nobody has asked for twice MaxBackOff.
func (m *Manager) Forget(pod types.UID) { m.retries.forgetPod(pod) }

// Wait returns when no pull is under way. A pull ends soon after the last
// EnsureImage that waits for it has returned.
//
// It may be called at any time, also while EnsureImage is.
func (m *Manager) Wait() { m.flights.wait() }

// Leases are those that hold the images it hands out: for whoever removes images.
func (m *Manager) Leases() *Leases { return m.config.Leases }
