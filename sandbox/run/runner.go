package run

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
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri"
)

// Runtime creates pod sandboxes, lists, stops and removes them. A *cri.Client implements it.
type Runtime interface {
	RunPodSandbox(context.Context, *runtimeapi.RunPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RunPodSandboxResponse, error)
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.ListPodSandboxResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error)
}

// Config configures a [Runner].
type Config struct {
	// Runtime creates the sandboxes. Required.
	Runtime Runtime
	// Owner marks the agent's sandboxes; the Runner touches no others. Default: the agent "podsync".
	Owner cri.Owner
	// CleanupTimeout bounds the cleanup after a failed Create, which continues after Create's context
	// ends, and the removal for unresolved attempts. Default 1 min. CancelPending ends it earlier.
	CleanupTimeout time.Duration
	// StopTimeout bounds one StopPodSandbox, which continues after its caller's context ends. Default
	// 4 min, longer than the call's timeout in cri.Timeouts.
	StopTimeout time.Duration
	// NameReservedRetries is how many requests may fail for an attempt, while no listed sandbox has its name,
	// after which Create uses the next attempt. Default 3, so that a runtime that keeps a timed-out sandbox can
	// return it (cri-o #4221).
	NameReservedRetries int
	// UnresolvedTimeout bounds a request for an unresolved attempt. CRI-O blocks such a request until its
	// deadline, and answers the one after it with the sandbox. Default 30 s.
	UnresolvedTimeout time.Duration
	// InitialRetry is the pause after the first failed stop or removal. It doubles up to MaxRetry. Default 1 s
	// and 30 s.
	InitialRetry, MaxRetry time.Duration
	// MakeLogDirectory creates a pod's log directory, which runtimes expect to exist. Default:
	// os.MkdirAll with mode 0755.
	MakeLogDirectory func(path string) error
	// Log receives a line for each sandbox that is adopted, abandoned or removed. Default: no log.
	Log logr.Logger
}

// Runner creates, stops and removes sandboxes over CRI. Until Forget it remembers each pod's attempts, and which are
// unresolved. An attempt is unresolved if the Runner has requested its sandbox but does not know the result. A Runner
// keeps this in memory: after an agent restart the new one starts without it.
//
// All methods may be called concurrently, but Create and Resolve only for different pods.
type Runner struct {
	config Config
	stops  flights

	mu   sync.Mutex
	pods map[types.UID]*attempts
	// base is the context for calls that CancelPending cancels, with endBase.
	base    context.Context
	endBase context.CancelFunc
}

// New returns a Runner. It makes no calls.
func New(c Config) (*Runner, error) {
	if c.Runtime == nil {
		return nil, errors.New("sandbox/run: Config.Runtime is missing")
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
		return nil, errors.New("sandbox/run: Config.CleanupTimeout is negative")
	case c.StopTimeout < 0:
		return nil, errors.New("sandbox/run: Config.StopTimeout is negative")
	case c.NameReservedRetries < 0:
		return nil, errors.New("sandbox/run: Config.NameReservedRetries is negative")
	case c.UnresolvedTimeout < 0:
		return nil, errors.New("sandbox/run: Config.UnresolvedTimeout is negative")
	case c.InitialRetry < 0 || c.MaxRetry < c.InitialRetry:
		return nil, errors.New("sandbox/run: Config.InitialRetry is negative or more than MaxRetry")
	}
	if c.MakeLogDirectory == nil {
		c.MakeLogDirectory = func(path string) error { return os.MkdirAll(path, 0o755) }
	}
	r := &Runner{config: c, pods: map[types.UID]*attempts{}}
	r.base, r.endBase = context.WithCancel(context.Background())
	return r, nil
}

// Forget drops a removed pod's attempts. A sandbox that appears later is an orphan, which the agent finds in its pod
// list.
func (r *Runner) Forget(pod types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, pod)
}

// Unresolved reports whether the pod has an unresolved attempt, whose sandbox may still appear. The attempt stays
// unresolved until its sandbox has appeared, or Forget was called.
func (r *Runner) Unresolved(pod types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.pods[pod]
	return a != nil && len(a.unresolved) > 0
}

// Resolve removes sandboxes that have appeared late, next to the pod's sandbox. keep is the pod's sandbox ID, "" if there
// is none. The sandbox from an attempt that was given up can appear at any time, and two ready sandboxes make a pod start
// over: while Unresolved is true, call Resolve for each pod status, before the decision. Without unresolved attempts it
// makes no call.
//
// Resolve removes those sandboxes from unresolved attempts that are ready, and those with a higher attempt than the kept
// one, which would count as the latest. The others are the pod's history and stay. The error names the sandboxes that
// could not be removed within Config.CleanupTimeout; their attempts stay unresolved.
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

// clear resolves the listed sandboxes' attempts, all of one pod, except the kept one. It removes those that are ready,
// and those that are not ready from the attempt lowest on; lower ones are history. A failed removal does not stop the
// others, and leaves its attempt unresolved.
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
