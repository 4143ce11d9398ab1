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

// PodStates reports which pod parts may be removed. For an unknown pod it reports false until it is
// certain that no source wants that pod.
type PodStates interface {
	// RuntimeShouldBeRemoved reports whether a pod's dead containers and
	// sandboxes may be removed.
	RuntimeShouldBeRemoved(pod types.UID) bool
	// ContentShouldBeRemoved reports whether the pod's files on the node, its volumes and logs, may
	// be removed.
	ContentShouldBeRemoved(pod types.UID) bool
	// AllShouldBeRemoved reports whether all containers and sandboxes in a pod may be removed once it has stopped, although
	// its source still has it: the pod was evicted or deleted, and is being stopped or has stopped.
	AllShouldBeRemoved(pod types.UID) bool
}

// Pods returns the pods that the runtime reports. A *runtime.Cache implements it.
type Pods interface {
	// UIDs returns the pods, each once, in any order.
	UIDs() []types.UID
	// Get returns the status from the last successful read, which the caller must not modify, and
	// the last read's error.
	Get(pod types.UID) (*runtime.PodStatus, error)
}

// Remover removes containers and sandboxes. A *cri.Client implements it.
type Remover interface {
	RemoveContainer(context.Context, *runtimeapi.RemoveContainerRequest, ...grpc.CallOption) (*runtimeapi.RemoveContainerResponse, error)
	StopPodSandbox(context.Context, *runtimeapi.StopPodSandboxRequest, ...grpc.CallOption) (*runtimeapi.StopPodSandboxResponse, error)
	RemovePodSandbox(context.Context, *runtimeapi.RemovePodSandboxRequest, ...grpc.CallOption) (*runtimeapi.RemovePodSandboxResponse, error)
}

// Config configures a Collector.
type Config struct {
	// Pods lists the agent's own pods. Required.
	Pods Pods
	// Runtime removes containers and sandboxes. Required.
	Runtime Remover
	// LogsRoot is the directory for all pod logs. A pod's logs are at
	// <namespace>_<name>_<uid>/<container>/<attempt>.log below it. Default: no log is removed.
	LogsRoot string
	// LogLinks is a directory with symbolic links to these logs. The Collector removes links
	// whose log no longer exists. It requires LogsRoot. Default: no link is removed.
	LogLinks string
}

// exitReadTime is the time in which the pod worker reads the exit codes from a pod that it has stopped. It may be unable to go
// on for longer than that, for example to record a status on a disk that is full.
const exitReadTime = 10 * time.Second

// After a removal, the same item is not removed again for firstPause. If the item still exists after
// that, the pause doubles, up to maxPause.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// A Collector removes garbage. Its methods may be called concurrently.
type Collector struct {
	config Config

	mu sync.Mutex
	// asked holds the items that the last pass tried to remove, by ID.
	asked map[string]request
	// directories holds the log directories for the pods seen so far.
	directories map[types.UID]string
	// earlier holds the other log directories that were there at the first pass, which has been if it is not nil: the runtime
	// may have no object of a pod that an earlier agent has stopped.
	earlier map[types.UID]string
}

// request records when to try again to remove an item.
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
	case c.LogLinks != "" && c.LogsRoot == "":
		return nil, errors.New("gc: Config.LogsRoot is missing: LogLinks would not be known to be dead")
	}
	return &Collector{config: c, directories: map[types.UID]string{}}, nil
}

// Collect makes one pass over all pods. It removes all containers and sandboxes in a pod that was evicted or deleted and has
// stopped: its source may keep the pod for long, and the node may need the disk space. Otherwise it skips pods whose
// containers and sandboxes the pod worker is about to remove. When a removal fails, Collect continues, retries it in a later
// pass, and returns all errors joined.
func (c *Collector) Collect(ctx context.Context, lives PodStates) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := pass{Collector: c, asked: map[string]request{}}
	var live []*runtime.PodStatus
	present := 0 // how many pods in c.directories the runtime still has
	for _, uid := range c.config.Pods.UIDs() {
		status, err := c.config.Pods.Get(uid)
		if err != nil || status.Empty() {
			continue
		}
		if c.see(status) {
			present++
		}
		switch {
		case lives.AllShouldBeRemoved(uid) && hasStopped(status, time.Now()):
			p.removeGarbage(ctx, status, everything(status))
		case c.config.LogLinks == "" && onlyFirstInstances(status): // most pods take this path, which makes no system call
		case !lives.RuntimeShouldBeRemoved(uid):
			live = append(live, status)
			p.removeGarbage(ctx, status, Decide(status))
		}
	}
	c.asked = p.asked
	p.errs = append(p.errs, c.pruneLogs(live, present < len(c.directories), lives))
	return errors.Join(p.errs...)
}

// pass is one call to Collect.
type pass struct {
	*Collector
	asked map[string]request
	errs  []error
}

func (p *pass) removeGarbage(ctx context.Context, status *runtime.PodStatus, garbage Garbage) {
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

// remove calls call unless an earlier attempt for the item is still backing off, and records the
// attempt.
func (p *pass) remove(ctx context.Context, item string, of *runtime.PodStatus, call func() error) {
	known := p.Collector.asked[item]
	if now := time.Now(); ctx.Err() == nil && !now.Before(known.due) {
		known.pause = min(max(2*known.pause, firstPause), maxPause)
		known.due = now.Add(known.pause)
		if err := cri.Withhold(call()); err != nil { // it may repeat values of Secrets, as the pod's memory may be gone
			p.errs = append(p.errs, fmt.Errorf("gc: remove %s of pod %s/%s: %w", item, of.Namespace, of.Name, err))
		}
	}
	p.asked[item] = known
}

// removeSandbox stops the sandbox first: a sandbox that is not ready may still hold its network
// (containerd #5768).
func (p *pass) removeSandbox(ctx context.Context, id string) error {
	_, err := p.config.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	if err := cri.IgnoreNotFound(err); err != nil {
		return err
	}
	_, err = p.config.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	return cri.IgnoreNotFound(err)
}
