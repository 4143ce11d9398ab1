package rotate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
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
	// parallel is how many logs are rotated at a time, and how many compressed: of a runtime
	// that hangs, others wait for a few.
	parallel = 4
	// compressTime is how long a pass compresses, and compressTurn how long one log. What is
	// left then is continued in the next pass.
	compressTime, compressTurn = 10 * time.Second, 2 * time.Second
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
	// compress is the function of that name.
	compress func(ctx context.Context, dir folder, name, to string, p *partial) (done bool, err error)

	mu sync.Mutex
	// logs are those of the containers that ran in the last pass, and of containers that have ended
	// whose logs are not compressed yet, by container ID.
	logs map[string]containerLog
}

// logState is what is known of a log. It is read and written by one goroutine at a time.
type logState struct {
	// tidied: what an earlier agent may have left half done was looked for.
	tidied bool
	// due is when a log that has failed is tried again, pause how long that was. The pause is zero
	// once rotation and all compressions have succeeded.
	due   time.Time
	pause time.Duration
	// compressions are left of the last rotation, partial is how far the first of them has come,
	// and compressed when the log had its last turn.
	compressions []Step
	partial      partial
	compressed   time.Time
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
	return &Rotator{config: c, compress: compress, logs: map[string]containerLog{}}, nil
}

// Rotate makes one pass over the logs of all containers that run. It goes on when
// something cannot be done, which is tried again in a later pass, and returns all that
// went wrong.
//
// All logs that are full are rotated before any is compressed. Compression ends after 10 s, and
// is continued in the next pass: a large log does not delay the rotation of others. What a container
// that has ended leaves to compress is compressed.
func (r *Rotator) Rotate(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	running := r.running()
	ended := r.keep(running)
	rotated := each(ctx, running, func(log containerLog) error {
		if !r.isDue(log) {
			return nil
		}
		return r.settle(log, r.rotate(ctx, log))
	})
	turns, cancel := context.WithTimeout(ctx, compressTime)
	defer cancel()
	return errors.Join(rotated, each(turns, inTurn(slices.Concat(running, ended)), func(log containerLog) error {
		return r.compressLog(turns, log)
	}))
}

// each calls do with each log until ctx ends, a few at a time.
func each(ctx context.Context, logs []containerLog, do func(containerLog) error) error {
	errs := make([]error, len(logs))
	slots := make(chan struct{}, parallel)
	var workers sync.WaitGroup
	for i, log := range logs {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		workers.Go(func() {
			errs[i] = do(log)
			<-slots
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// A containerLog is the log of one container.
type containerLog struct {
	*logState
	container, id       string
	pod, directory, log string // the pod's directory is below LogsRoot
}

// running returns the logs of the containers that run.
func (r *Rotator) running() []containerLog {
	var logs []containerLog
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
			state := r.logs[c.ID.ID].logState
			if state == nil {
				state = &logState{}
			}
			logs = append(logs, containerLog{
				logState: state, container: c.Name, id: c.ID.ID, pod: status.Namespace + "/" + status.Name,
				directory: status.Namespace + "_" + status.Name + "_" + string(status.UID),
				log:       strconv.FormatUint(uint64(c.Attempt), 10) + ".log",
			})
		}
	}
	return logs
}

// keep keeps the logs of the containers that run, and those of other containers that are not
// compressed yet, which it returns. It forgets all others.
func (r *Rotator) keep(running []containerLog) (ended []containerLog) {
	known := r.logs
	r.logs = make(map[string]containerLog, len(running))
	for _, log := range running {
		r.logs[log.id] = log
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		if _, runs := r.logs[id]; !runs && len(known[id].compressions) > 0 {
			r.logs[id] = known[id]
			ended = append(ended, known[id])
		}
	}
	return ended
}

// backsOff reports whether a log has failed and is not tried again yet.
func (s *logState) backsOff() bool { return time.Now().Before(s.due) }

// isDue reports whether a log is to be looked at closely. Most are not: one look at the
// file says so.
func (r *Rotator) isDue(log containerLog) bool {
	if log.backsOff() {
		return false
	}
	if !log.tidied {
		return true
	}
	info, err := os.Lstat(filepath.Join(r.config.LogsRoot, log.directory, log.container, log.log))
	return err != nil || !info.Mode().IsRegular() || info.Size() >= maxSize(r.config.Policy)
}

// settle records the result of a rotation or compression, and returns the error to report. While
// compressions are left the pause stays as long as it is: the rotation before a compression that
// keeps failing succeeds each time.
func (r *Rotator) settle(log containerLog, err error) error {
	if err == nil {
		log.tidied = true
		if len(log.compressions) == 0 {
			log.pause = 0
		}
		return nil
	}
	log.pause = min(max(2*log.pause, firstPause), maxPause)
	log.due = time.Now().Add(log.pause)
	log.tidied = false // what is left to do is decided again then, if the container still runs
	return fmt.Errorf("rotate: log of container %q of pod %s: %w", log.container, log.pod, err)
}

// rotate does with a log what is to be done, but for compressions.
func (r *Rotator) rotate(ctx context.Context, log containerLog) error {
	root, err := r.open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it logs elsewhere, or nowhere
	}
	if err != nil {
		return err
	}
	defer root.Close()
	log.compressions, err = rotateIn(ctx, root, log.log, r.config.Policy, log.partial, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, reopenTimeout)
		defer cancel()
		_, err := r.config.Runtime.ReopenContainerLog(ctx, &runtimeapi.ReopenContainerLogRequest{ContainerId: log.id})
		return err
	})
	return err
}

// open opens the directory of a log.
func (r *Rotator) open(log containerLog) (*os.Root, error) {
	for field, name := range map[string]string{"directory of the pod": log.directory, "name": log.container} {
		if err := safepath.Element(field, name); err != nil {
			return nil, err
		}
	}
	return openDirectory(r.config.LogsRoot, log.directory, log.container)
}

// inTurn returns the logs that have something to compress and do not back off, those first that
// wait longest.
func inTurn(logs []containerLog) []containerLog {
	var turns []containerLog
	for _, log := range logs {
		if len(log.compressions) > 0 && !log.backsOff() {
			turns = append(turns, log)
		}
	}
	slices.SortStableFunc(turns, func(a, b containerLog) int { return a.compressed.Compare(b.compressed) })
	return turns
}

// compressLog gives a log its turn.
func (r *Rotator) compressLog(ctx context.Context, log containerLog) error {
	ctx, cancel := context.WithTimeout(ctx, compressTurn)
	defer cancel()
	log.compressed = time.Now()
	root, err := r.open(log)
	if errors.Is(err, fs.ErrNotExist) { // it was removed, with the pod for example
		log.compressions, log.partial = nil, partial{}
		return nil
	}
	if err != nil {
		return r.settle(log, err)
	}
	defer root.Close()
	for len(log.compressions) > 0 && ctx.Err() == nil {
		step := log.compressions[0]
		done, err := r.compress(ctx, root, step.File, step.To, &log.partial)
		if err != nil {
			return r.settle(log, fmt.Errorf("%v: %w", step, err))
		}
		if done {
			log.compressions = log.compressions[1:]
		}
	}
	if len(log.compressions) == 0 {
		log.pause = 0
	}
	return nil
}
