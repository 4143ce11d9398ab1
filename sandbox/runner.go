package sandbox

import (
	"cmp"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime/cri"
)

// RunnerConfig is what a [Runner] needs.
type RunnerConfig struct {
	// Runtime makes the sandboxes. Required.
	Runtime cri.SandboxRunner
	// Owner marks what is made, and says what may be touched. Default: the agent
	// "podsync".
	Owner cri.Owner
	// CleanupTimeout bounds the removal of what a failed Create left behind, which
	// goes on when Create's context has ended. Default 1 min.
	CleanupTimeout time.Duration
	// ReservedTries is how often an attempt is asked for in vain, while nothing
	// listed has its name, before Create moves on to the next. Default 3, which leaves a runtime that
	// keeps what timed out the time to hand it over (cri-o #4221).
	ReservedTries int
	// FirstRetry is the pause after the first failed stop or remove, which doubles
	// up to MaxRetry. Default 1 s and 30 s.
	FirstRetry, MaxRetry time.Duration
	// MakeLogDirectory makes the directory of a pod's logs, which runtimes expect
	// to be there. Default: os.MkdirAll with mode 0755.
	MakeLogDirectory func(path string) error
	// Log gets a line when a sandbox is adopted, given up or removed. Default
	// silent.
	Log logr.Logger
}

// Runner makes, stops and removes sandboxes over CRI. It remembers, for each pod
// until Forget, which attempts were made and whether one of them is in doubt.
//
// All methods may be called concurrently, Create for different pods.
type Runner struct {
	config RunnerConfig
	stops  turns

	mu   sync.Mutex
	pods map[types.UID]*attempts
}

// NewRunner returns a Runner. It makes no call.
func NewRunner(c RunnerConfig) (*Runner, error) {
	if c.Runtime == nil {
		return nil, errors.New("sandbox: RunnerConfig.Runtime is missing")
	}
	if err := c.Owner.Validate(); err != nil {
		return nil, err
	}
	c.CleanupTimeout = cmp.Or(c.CleanupTimeout, time.Minute)
	c.ReservedTries = cmp.Or(c.ReservedTries, 3)
	c.FirstRetry = cmp.Or(c.FirstRetry, time.Second)
	c.MaxRetry = cmp.Or(c.MaxRetry, 30*time.Second)
	switch {
	case c.CleanupTimeout < 0:
		return nil, errors.New("sandbox: RunnerConfig.CleanupTimeout is negative")
	case c.ReservedTries < 0:
		return nil, errors.New("sandbox: RunnerConfig.ReservedTries is negative")
	case c.FirstRetry < 0 || c.MaxRetry < c.FirstRetry:
		return nil, errors.New("sandbox: RunnerConfig.FirstRetry is negative or more than MaxRetry")
	}
	if c.MakeLogDirectory == nil {
		c.MakeLogDirectory = func(path string) error { return os.MkdirAll(path, 0o755) }
	}
	return &Runner{config: c, pods: map[types.UID]*attempts{}}, nil
}

// Forget drops what is remembered of a pod that is gone.
func (r *Runner) Forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}

// attempts are what a Runner remembers of a pod's sandboxes.
type attempts struct {
	// next is the attempt to make next.
	next uint32
	// doubt is set while it is not known what has become of some attempt, the
	// first of which is since.
	doubt bool
	since uint32
	// reserved counts how often next was asked for in vain, with nothing listed
	// that could have its name.
	reserved int
}

// begin returns what is remembered of the pod, with next at least the attempt
// wanted.
func (r *Runner) begin(pod types.UID, wanted uint32) attempts {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	if a == nil {
		a = &attempts{}
		r.pods[pod] = a
	}
	if wanted > a.next {
		a.next, a.reserved = wanted, 0
	}
	return *a
}

// made notes that an attempt has become a sandbox.
func (r *Runner) made(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods[pod] = &attempts{next: attempt + 1}
}

// doubt notes that it is not known what has become of an attempt.
func (r *Runner) doubt(pod types.UID, attempt uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a := r.pods[pod]; a != nil && !a.doubt {
		a.doubt, a.since = true, attempt
	}
}

// refused notes that an attempt was asked for in vain: its name is taken, and what
// has it is not listed. It reports whether the attempt is given up.
func (r *Runner) refused(pod types.UID, attempt uint32) (gaveUp bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	if a == nil || a.next != attempt {
		return false
	}
	if a.reserved++; a.reserved < r.config.ReservedTries {
		return false
	}
	a.next, a.reserved = attempt+1, 0
	return true
}
