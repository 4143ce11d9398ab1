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

// Config configures a Manager.
type Config struct {
	// Runtime stores and pulls images. Required.
	Runtime cri.ImagePuller
	// MaxParallelPulls limits the number of concurrent pulls; further pulls wait in order of
	// arrival. Requests for present images never wait. Default 5; negative means no limit.
	MaxParallelPulls int
	// InitialBackOff is the wait after the first failed pull. It doubles with each further failure,
	// up to MaxBackOff. Default 10 s and 5 min, as in a kubelet.
	InitialBackOff, MaxBackOff time.Duration
	// Leases are shared with the component that removes images, and must live as long as the
	// Manager, which learns of removed images from them. Default: leases of the Manager's own.
	Leases *Leases
	// ShareImages lets every pod use every present image. By default, a pod that uses an image that
	// this Manager pulled with a credential needs a credential with which the image was pulled.
	// With other credentials the image is pulled again, and the registry decides, as in a kubelet
	// since v1.35 (KEP-2535).
	ShareImages bool
	// VerifyPreloaded reports whether images of a repository that no agent has pulled need a
	// credential too, or a pull without one. Default: none does, as with a kubelet's policy
	// NeverVerifyPreloadedImages.
	VerifyPreloaded func(repository string) bool
	// Dir is a directory in which the Manager persists which credentials may use which image. It
	// contains hashes of credentials. Without it, every image counts as preloaded after a restart
	// of the agent.
	Dir string
	// Log receives errors about records in Dir that cannot be read or written.
	Log logr.Logger
	// Observer is notified of pulls. Default: none.
	Observer Observer
	// progressInterval is how often Observer.PullProgress is called. Default 10 s.
	progressInterval time.Duration
}

const (
	defaultParallelPulls    = 5
	defaultProgressInterval = 10 * time.Second
)

// Manager ensures that images are present. All methods may be called concurrently.
type Manager struct {
	config  Config
	flights flights
	retries *retries
	access  access
	// slots holds a token for each running pull, nil if there is no limit. Goroutines that wait to
	// send on a channel proceed in order.
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

// Forget drops the recorded failures of a deleted pod. Otherwise they are dropped after twice
// MaxBackOff without a request.
func (m *Manager) Forget(pod types.UID) { m.retries.forgetPod(pod) }

// Wait returns when no pull is running. A pull ends soon after the last EnsureImage that waits for
// it has returned. Wait may be called at any time, also concurrently with EnsureImage.
func (m *Manager) Wait() { m.flights.wait() }

// Leases returns the leases that protect the returned images. Pass them to the component that
// removes images.
func (m *Manager) Leases() *Leases { return m.config.Leases }
