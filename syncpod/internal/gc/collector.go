package gc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
)

// PodStates tells what may be removed of pods. A pod that is not known is taken to be
// gone only once it is certain that nobody wants it.
type PodStates interface {
	// RuntimeShouldBeRemoved reports whether the dead containers and the sandboxes of
	// a pod may be removed.
	RuntimeShouldBeRemoved(pod types.UID) bool
	// ContentShouldBeRemoved reports whether what a pod wrote on the node, its volumes
	// and logs, may be removed.
	ContentShouldBeRemoved(pod types.UID) bool
}

// Pods knows what the runtime has of pods. A *runtime.Cache does.
type Pods interface {
	// UIDs returns the pods, each once, in any order.
	UIDs() []types.UID
	// Get returns the status of the last read that succeeded, which is not written to,
	// and the error of the last read.
	Get(pod types.UID) (*runtime.PodStatus, error)
}

// Remover removes containers and sandboxes. A *cri.Client does.
type Remover interface {
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error)
}

// Config is what a Collector works with.
type Config struct {
	// Pods are the agent's own. Required.
	Pods Pods
	// Runtime removes. Required.
	Runtime Remover
	// Policy says what stays.
	Policy Policy
	// LogsRoot is the directory of the logs of all pods, below which those of a pod
	// are at <namespace>_<name>_<uid>/<container>/<attempt>.log. Default: logs stay.
	LogsRoot string
	// LogLinks is a directory of links to these logs, of which those to logs that are
	// gone are removed. It needs a LogsRoot. Default: there is none.
	LogLinks string
}

// After an item was asked to be removed, it is left alone for firstPause, and each
// time that it is still there for twice as long, up to maxPause.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// A Collector removes garbage. Its methods may be called concurrently.
type Collector struct {
	config Config

	mu sync.Mutex
	// asked are the items that were to be removed in the last pass, by ID.
	asked map[string]request
	// directories are those of the logs of pods that were seen.
	directories map[types.UID]string
}

// request is what is remembered of an item that is to be removed.
type request struct {
	due   time.Time // the next attempt
	pause time.Duration
}

// New returns a Collector. It does nothing until Collect is called.
func New(c Config) (*Collector, error) {
	switch {
	case c.Pods == nil:
		return nil, errors.New("gc: Config.Pods is missing")
	case c.Runtime == nil:
		return nil, errors.New("gc: Config.Runtime is missing")
	case c.Policy.PerContainer < 0:
		return nil, fmt.Errorf("gc: Config.Policy.PerContainer is negative: %d", c.Policy.PerContainer)
	case c.Policy.MinAge < 0:
		return nil, fmt.Errorf("gc: Config.Policy.MinAge is negative: %v", c.Policy.MinAge)
	case c.LogLinks != "" && c.LogsRoot == "":
		return nil, errors.New("gc: Config.LogsRoot is missing: LogLinks would not be known to be dead")
	}
	return &Collector{config: c, directories: map[types.UID]string{}}, nil
}

// Collect makes one pass over all pods. Those whose runtime part is to be removed are
// left to whoever does that. It goes on when something cannot be removed, which is
// tried again in a later pass, and returns all that went wrong.
func (c *Collector) Collect(ctx context.Context, lives PodStates) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := pass{Collector: c, asked: map[string]request{}}
	var live []*runtime.PodStatus
	present := 0 // how many pods of c.directories the runtime still has
	for _, uid := range c.config.Pods.UIDs() {
		status, err := c.config.Pods.Get(uid)
		if err != nil || status.Empty() {
			continue
		}
		if c.see(status) {
			present++
		}
		if c.config.LogLinks == "" && onlyFirstInstances(status) {
			continue // most pods are so, and cost no more than this
		}
		if !lives.RuntimeShouldBeRemoved(uid) {
			live = append(live, status)
			p.removeDead(ctx, status)
		}
	}
	c.asked = p.asked
	p.errs = append(p.errs, c.pruneLogs(live, present < len(c.directories), lives))
	return errors.Join(p.errs...)
}

// pass is one call of Collect.
type pass struct {
	*Collector
	asked map[string]request
	errs  []error
}

func (p *pass) removeDead(ctx context.Context, status *runtime.PodStatus) {
	garbage := Decide(status, p.config.Policy, time.Now())
	for _, id := range garbage.Containers {
		p.remove(ctx, "container "+id.ID, status, func() error {
			_, err := p.config.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id.ID})
			return cri.IgnoreNotFound(err)
		})
	}
	for _, id := range garbage.Sandboxes {
		p.remove(ctx, "sandbox "+id, status, func() error { return p.removeSandbox(ctx, id) })
	}
}

// remove calls, unless the pause since the last time is not over, and remembers that
// it did.
func (p *pass) remove(ctx context.Context, item string, of *runtime.PodStatus, call func() error) {
	known := p.Collector.asked[item]
	if now := time.Now(); ctx.Err() == nil && !now.Before(known.due) {
		known.pause = min(max(2*known.pause, firstPause), maxPause)
		known.due = now.Add(known.pause)
		if err := call(); err != nil {
			p.errs = append(p.errs, fmt.Errorf("gc: remove %s of pod %s/%s: %w", item, of.Namespace, of.Name, err))
		}
	}
	p.asked[item] = known
}

// removeSandbox stops the sandbox first: that it is not ready does not say that its
// network was released (containerd #5768).
func (p *pass) removeSandbox(ctx context.Context, id string) error {
	_, err := p.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return err
	}
	_, err = p.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return cri.IgnoreNotFound(err)
}
