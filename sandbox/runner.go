package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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
	// goes on when Create's context has ended, and that of the sandboxes of lost
	// attempts. Default 1 min. CancelPending ends it before.
	CleanupTimeout time.Duration
	// StopTimeout bounds one StopPodSandbox, which goes on when the context of the
	// Stop that began it has ended. Default 4 min, longer than what cri.Timeouts
	// gives the call.
	StopTimeout time.Duration
	// NameReservedRetries is how often an attempt is asked for in vain, while nothing
	// listed has its name, before Create moves on to the next. Default 3, which leaves
	// a runtime that keeps what timed out the time to hand it over (cri-o #4221).
	NameReservedRetries int
	// UnresolvedTimeout bounds a call for an unresolved attempt. CRI-O does not answer
	// such a call before its time is over, whatever has become of the attempt; the call
	// after it gets the sandbox. Default 30 s.
	UnresolvedTimeout time.Duration
	// InitialRetry is the pause after the first failed stop or remove, which doubles
	// up to MaxRetry. Default 1 s and 30 s.
	InitialRetry, MaxRetry time.Duration
	// MakeLogDirectory makes the directory of a pod's logs, which runtimes expect
	// to be there. Default: os.MkdirAll with mode 0755.
	MakeLogDirectory func(path string) error
	// Log gets a line when a sandbox is adopted, given up or removed. Default
	// silent.
	Log logr.Logger
}

// Runner makes, stops and removes sandboxes over CRI. It remembers, for each pod
// until Forget, which attempts were made and which of them are unresolved: asked
// for, and not known to have become a sandbox or to have failed. Another Runner,
// such as that of the next process, knows nothing of these.
//
// All methods may be called concurrently, Create and Resolve for different pods.
type Runner struct {
	config RunnerConfig
	stops  flights

	mu   sync.Mutex
	pods map[types.UID]*attempts
	// base ends, by endBase, what goes on although its caller has left: see Cut.
	base    context.Context
	endBase context.CancelFunc
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
	c.StopTimeout = cmp.Or(c.StopTimeout, 4*time.Minute)
	c.NameReservedRetries = cmp.Or(c.NameReservedRetries, 3)
	c.UnresolvedTimeout = cmp.Or(c.UnresolvedTimeout, 30*time.Second)
	c.InitialRetry = cmp.Or(c.InitialRetry, time.Second)
	c.MaxRetry = cmp.Or(c.MaxRetry, 30*time.Second)
	switch {
	case c.CleanupTimeout < 0:
		return nil, errors.New("sandbox: RunnerConfig.CleanupTimeout is negative")
	case c.StopTimeout < 0:
		return nil, errors.New("sandbox: RunnerConfig.StopTimeout is negative")
	case c.NameReservedRetries < 0:
		return nil, errors.New("sandbox: RunnerConfig.NameReservedRetries is negative")
	case c.UnresolvedTimeout < 0:
		return nil, errors.New("sandbox: RunnerConfig.UnresolvedTimeout is negative")
	case c.InitialRetry < 0 || c.MaxRetry < c.InitialRetry:
		return nil, errors.New("sandbox: RunnerConfig.InitialRetry is negative or more than MaxRetry")
	}
	if c.MakeLogDirectory == nil {
		c.MakeLogDirectory = func(path string) error { return os.MkdirAll(path, 0o755) }
	}
	r := &Runner{config: c, pods: map[types.UID]*attempts{}}
	r.base, r.endBase = context.WithCancel(context.Background())
	return r, nil
}

// Forget drops what is remembered of a pod that is gone. A sandbox of it that
// comes up later is for whoever looks at all pods of the runtime.
func (r *Runner) Forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}

// Unresolved reports whether an attempt at a sandbox of the pod is unresolved, and so
// may yet come up. It stays unresolved until it has come up or Forget was called.
func (r *Runner) Unresolved(pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	return a != nil && len(a.unresolved) > 0
}

// Resolve removes sandboxes that have come up late, beside the one with the ID
// keep, which is the one the pod uses; "" if it uses none. An attempt that was
// given up may come up at any time, and two ready sandboxes make a pod start over:
// call Resolve at each look at the pod for as long as Unresolved says so, before
// deciding on what was seen. While nothing is unresolved it makes no call.
//
// Of the sandboxes of unresolved attempts, those that are ready are removed, and
// those of higher attempts than the one kept, which would pass for the latest. The
// rest is history and stays. What cannot be removed within
// RunnerConfig.CleanupTimeout stays unresolved, and is in the error.
func (r *Runner) Resolve(ctx context.Context, pod types.UID, keep string) error {
	if !r.Unresolved(pod) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.CleanupTimeout)
	defer cancel()
	listed, err := r.listPod(ctx, pod)
	if err != nil {
		return fmt.Errorf("sandbox: Resolve pod %s: %w", pod, err)
	}
	history := uint32(math.MaxUint32)
	if i := slices.IndexFunc(listed, func(s *runtimeapi.PodSandbox) bool { return s.GetId() == keep }); i >= 0 {
		history = listed[i].GetMetadata().GetAttempt()
		r.made(pod, history)
	}
	unresolved := r.unresolvedAttempts(pod)
	listed = slices.DeleteFunc(listed, func(s *runtimeapi.PodSandbox) bool { return !unresolved[s.GetMetadata().GetAttempt()] })
	if err := r.clear(ctx, listed, keep, history); err != nil {
		return fmt.Errorf("sandbox: Resolve pod %s: %w", pod, err)
	}
	return nil
}

// clear resolves what the sandboxes listed tell of, all of one pod, but for the one
// kept: it removes those that are ready, and those that are not from the attempt
// lowest on; lower ones are history. Each is tried, whatever becomes of the others,
// and what cannot be removed is unresolved.
func (r *Runner) clear(ctx context.Context, listed []*runtimeapi.PodSandbox, keep string, lowest uint32) error {
	failed := make([]error, len(listed))
	var removals sync.WaitGroup
	for i, s := range listed {
		pod, attempt := types.UID(s.GetMetadata().GetUid()), s.GetMetadata().GetAttempt()
		switch {
		case s.GetId() == keep:
		case !ready(s) && attempt < lowest:
			r.markResolved(pod, attempt)
		default:
			r.config.Log.Info("removing the sandbox of a lost attempt", "podUID", pod, "sandboxID", s.GetId(), "attempt", attempt)
			removals.Go(func() {
				if failed[i] = r.Remove(ctx, s.GetId()); failed[i] != nil {
					r.markUnresolved(pod, attempt)
					return
				}
				r.markResolved(pod, attempt)
			})
		}
	}
	removals.Wait()
	return errors.Join(failed...)
}

func ready(s *runtimeapi.PodSandbox) bool {
	return s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
}
