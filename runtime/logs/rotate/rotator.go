package rotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/internal/base/safepath"
	"github.com/podsync/podsync/runtime"
)

// Pods knows what the runtime has of pods. A *runtime.Cache does.
type Pods interface {
	// UIDs returns the pods, in any order.
	UIDs() []types.UID
	// Get returns the status of the last read that succeeded, which is not written to,
	// and the error of the last read.
	Get(pod types.UID) (*runtime.PodStatus, error)
}

// Reopener has a container write to a new file of its log. A *cri.Client does.
type Reopener interface {
	ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest, ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error)
}

// Config is what a Rotator works with.
type Config struct {
	// Pods are the agent's own. Required.
	Pods Pods
	// Runtime writes the logs. Required.
	Runtime Reopener
	// LogsRoot is the directory of the logs of all pods, below which those of a pod
	// are at <namespace>_<name>_<uid>/<container>/<attempt>.log. Required.
	LogsRoot string
	// Policy says how large they get.
	Policy Policy
}

const (
	// parallel is how many logs are rotated at a time: of a runtime that hangs, others
	// wait for a few.
	parallel = 4
	// reopenTimeout is how long the runtime may take to begin a new file.
	reopenTimeout = 10 * time.Second
	// A log that failed is left alone for firstPause, and each time that it fails again
	// for twice as long, up to maxPause.
	firstPause = 10 * time.Second
	maxPause   = 10 * time.Minute
)

// A Rotator rotates logs. Its methods may be called concurrently.
type Rotator struct {
	config Config

	mu sync.Mutex
	// logs are those of the containers that ran in the last pass, by container ID.
	logs map[string]*logState
}

// logState is what is known of a log. It is read and written by one goroutine at a time.
type logState struct {
	// tidied: what an earlier agent may have left half done was looked for.
	tidied bool
	// due is when a log that has failed is tried again, pause how long that was.
	due   time.Time
	pause time.Duration
}

// New returns a Rotator. It does nothing until Rotate is called.
func New(c Config) (*Rotator, error) {
	switch {
	case c.Pods == nil:
		return nil, errors.New("rotate: Config.Pods is missing")
	case c.Runtime == nil:
		return nil, errors.New("rotate: Config.Runtime is missing")
	case !filepath.IsAbs(c.LogsRoot):
		return nil, fmt.Errorf("rotate: Config.LogsRoot %q is not an absolute path", c.LogsRoot)
	}
	if err := c.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("rotate: Config.Policy.%w", err)
	}
	return &Rotator{config: c, logs: map[string]*logState{}}, nil
}

// Rotate makes one pass over the logs of all containers that run. It goes on when
// something cannot be done, which is tried again in a later pass, and returns all that
// went wrong.
func (r *Rotator) Rotate(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	logs := r.running()
	errs := make([]error, len(logs))
	turns := make(chan struct{}, parallel)
	var workers sync.WaitGroup
	for i, log := range logs {
		if ctx.Err() != nil {
			break
		}
		if !r.isDue(log) {
			continue
		}
		turns <- struct{}{}
		workers.Go(func() {
			errs[i] = r.settle(log, r.rotate(ctx, log))
			<-turns
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// A containerLog is that of a container which runs.
type containerLog struct {
	*logState
	container, id       string
	pod, directory, log string // the pod's directory is below LogsRoot
}

// running returns the logs of the containers that run, and forgets those of all others.
func (r *Rotator) running() []containerLog {
	var logs []containerLog
	known := r.logs
	r.logs = make(map[string]*logState, len(known))
	for _, uid := range slices.Sorted(slices.Values(r.config.Pods.UIDs())) {
		status, _ := r.config.Pods.Get(uid)
		if status == nil {
			continue
		}
		for i := range status.Containers {
			c := &status.Containers[i]
			if c.State != runtime.ContainerRunning {
				continue
			}
			state := known[c.ID.ID]
			if state == nil {
				state = &logState{}
			}
			r.logs[c.ID.ID] = state
			logs = append(logs, containerLog{
				logState: state, container: c.Name, id: c.ID.ID, pod: status.Namespace + "/" + status.Name,
				directory: status.Namespace + "_" + status.Name + "_" + string(status.UID),
				log:       strconv.FormatUint(uint64(c.Attempt), 10) + ".log",
			})
		}
	}
	return logs
}

// isDue reports whether a log is to be looked at closely. Most are not: one look at the
// file says so.
func (r *Rotator) isDue(log containerLog) bool {
	if time.Now().Before(log.due) {
		return false
	}
	if !log.tidied {
		return true
	}
	info, err := os.Lstat(filepath.Join(r.config.LogsRoot, log.directory, log.container, log.log))
	return err != nil || !info.Mode().IsRegular() || info.Size() >= r.config.Policy.maxSize()
}

// settle notes how it went, and returns what is to be told of that.
func (r *Rotator) settle(log containerLog, err error) error {
	if err == nil {
		log.tidied, log.pause = true, 0
		return nil
	}
	log.pause = min(max(2*log.pause, firstPause), maxPause)
	log.due = time.Now().Add(log.pause)
	return fmt.Errorf("rotate: log of container %q of pod %s: %w", log.container, log.pod, err)
}

// rotate does with a log what is to be done.
func (r *Rotator) rotate(ctx context.Context, log containerLog) error {
	for field, name := range map[string]string{"directory of the pod": log.directory, "name": log.container} {
		if err := safepath.Element(field, name); err != nil {
			return err
		}
	}
	root, err := openDirectory(r.config.LogsRoot, log.directory, log.container)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it logs elsewhere, or nowhere
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return rotateIn(ctx, root, log.log, r.config.Policy, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reopenTimeout)
		defer cancel()
		_, err := r.config.Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: log.id})
		return err
	})
}
