package image

import (
	"cmp"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Manager. Its Runtime is required.
type Config struct {
	Settings
	// Dir is a directory in which the Manager persists which credentials may use which image. It
	// contains credential hashes. Without it, every image counts as preloaded after an agent
	// restart.
	Dir string
	// Log receives errors about records in Dir that cannot be read or written.
	Log logr.Logger
}

const (
	defaultParallelPulls = 5
	// progressInterval is the interval for Observer.PullProgress calls.
	progressInterval = 10 * time.Second
)

// Manager ensures that images are present. All methods may be called concurrently.
type Manager struct {
	config  Config
	leases  Leases
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
	retries, err := newRetries(c.InitialBackOff, c.MaxBackOff)
	if err != nil {
		return nil, err
	}
	if c.Observer == nil {
		c.Observer = NopObserver{}
	}
	m := &Manager{config: c, retries: retries}
	m.access.files, m.access.verify = newAccessFiles(c.Dir, c.Log), c.VerifyPreloaded
	m.leases.observe(&m.access)
	if limit := cmp.Or(c.MaxParallelPulls, defaultParallelPulls); limit > 0 {
		m.slots = make(chan struct{}, limit)
	}
	return m, nil
}

// Forget drops a deleted pod's recorded failures, and which images it got. Otherwise failures are dropped after ten
// minutes without a request.
func (m *Manager) Forget(pod types.UID) {
	m.retries.forgetPod(pod)
	m.access.forget(pod)
}

// Wait returns when no pull is running. A pull ends soon after the last EnsureImageExists that waits for
// it has returned. Wait may be called at any time, also concurrently with EnsureImageExists.
func (m *Manager) Wait() { m.flights.wait() }

// Leases returns the leases that protect the returned images. Pass them to the component that
// removes images.
func (m *Manager) Leases() *Leases { return &m.leases }
