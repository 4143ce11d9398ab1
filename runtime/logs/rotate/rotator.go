package rotate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/hostfs"
)

// Pods returns the pods that the runtime reports. A *runtime.Cache implements it.
type Pods interface {
	// UIDs returns the pods, in any order.
	UIDs() []types.UID
	// Get returns the status from the last successful read, which the caller must not modify, and
	// the last read's error.
	Get(pod types.UID) (*runtime.PodStatus, error)
}

// Reopener asks the runtime to reopen a container's log. A *cri.Client implements it.
type Reopener interface {
	ReopenContainerLog(context.Context, *runtimeapi.ReopenContainerLogRequest, ...grpc.CallOption) (*runtimeapi.ReopenContainerLogResponse, error)
}

// Config configures a Rotator.
type Config struct {
	// Pods lists the agent's own pods. Required.
	Pods Pods
	// Runtime writes the logs. Required.
	Runtime Reopener
	// LogsRoot is the directory for all pod logs. A pod's logs are at
	// <namespace>_<name>_<uid>/<container>/<attempt>.log below it. Required.
	LogsRoot string
	// Policy limits the log size.
	Policy Policy
}

const (
	// parallel limits concurrent rotations, and concurrent compressions. If the runtime hangs, only
	// so many calls wait for it.
	parallel = 4
	// compressTime limits a pass's compressions, compressTurn the time for one log within a pass. The
	// next pass resumes.
	compressTime, compressTurn = 10 * time.Second, 2 * time.Second
	// reopenTimeout limits the call that asks the runtime to reopen a log.
	reopenTimeout = 10 * time.Second
	// After a failure a log is not retried for firstPause; the pause doubles with each further failure,
	// up to maxPause. The first pause for a log that the runtime does not write is missingPause.
	firstPause   = 10 * time.Second
	missingPause = 5 * time.Minute
	maxPause     = 10 * time.Minute
)

// A Rotator rotates logs. Its methods may be called concurrently.
type Rotator struct {
	config Config
	// compress is the function compress; tests replace it.
	compress func(ctx context.Context, dir folder, name, to string, p *partial) (done bool, err error)

	mu sync.Mutex
	// logs holds the logs for the containers that ran in the last pass, and for ended
	// containers whose logs are not compressed yet, by container ID. pass counts the passes.
	logs map[string]*containerLog
	pass uint64
}

// A containerLog is one container's log. Only one goroutine at a time uses it.
type containerLog struct {
	container, id       string
	pod, directory, log string // pod names the pod's directory below LogsRoot
	// pass is the last one in which the container ran.
	pass uint64
	// tidied means that an interrupted earlier agent's files have been removed.
	tidied bool
	// due is when the next attempt is made after a failure, pause the current back-off. pause
	// is zero once the rotation and all compressions have succeeded.
	due   time.Time
	pause time.Duration
	// growth decides when the file's size is read again, at look.
	growth growth
	look   time.Time
	// compressions are unfinished ones from the last rotation, partial is the first one's progress,
	// and compressed is when the log was last served.
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
	return &Rotator{config: c, compress: compress, logs: map[string]*containerLog{}}, nil
}

// Rotate makes one pass over the logs of all running containers. When a log fails, Rotate continues
// with the others, retries it in a later pass, and returns all errors joined.
//
// It rotates all full logs before it compresses any. After 10 s it stops compressing until the next
// pass, so that a large log does not delay other rotations. It also finishes the compressions for
// containers that have ended.
func (r *Rotator) Rotate(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rotated := each(ctx, r.update(), func(log *containerLog) error {
		if !r.isDue(log) {
			return nil
		}
		return r.settle(log, r.rotate(ctx, log))
	})
	turns, cancel := context.WithTimeout(ctx, compressTime)
	defer cancel()
	return errors.Join(rotated, each(turns, r.unfinished(), func(log *containerLog) error {
		return r.compressLog(turns, log)
	}))
}

// each calls do for each log until ctx ends, with limited concurrency.
func each(ctx context.Context, logs []*containerLog, do func(*containerLog) error) error {
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

// update returns the logs that may be full, or that were never read, ordered by their IDs: among many logs, few in
// each pass. It drops ended containers' logs without pending compressions.
func (r *Rotator) update() (full []*containerLog) {
	r.pass++
	now := time.Now()
	for _, uid := range r.config.Pods.UIDs() {
		status, _ := r.config.Pods.Get(uid)
		if status == nil {
			continue
		}
		for i := range status.Containers {
			c := &status.Containers[i]
			if c.State != runtime.ContainerRunning {
				continue
			}
			log := r.logs[c.ID.ID]
			if log == nil {
				log = logOf(status, c)
				r.logs[c.ID.ID] = log
			}
			if log.pass != r.pass && !now.Before(log.due) && !now.Before(log.look) {
				full = append(full, log)
			}
			log.pass = r.pass
		}
	}
	for id, log := range r.logs {
		if log.pass != r.pass && len(log.compressions) == 0 {
			delete(r.logs, id)
		}
	}
	slices.SortFunc(full, func(a, b *containerLog) int { return strings.Compare(a.id, b.id) })
	return full
}

func logOf(status *runtime.PodStatus, c *runtime.ContainerStatus) *containerLog {
	return &containerLog{
		container: c.Name, id: c.ID.ID, pod: status.Namespace + "/" + status.Name,
		directory: status.Namespace + "_" + status.Name + "_" + string(status.UID),
		log:       strconv.FormatUint(uint64(c.Attempt), 10) + ".log",
	}
}

// isDue reports whether the log's directory must be read. For most logs it need not be: a single
// stat decides that, and when the next one is needed.
func (r *Rotator) isDue(log *containerLog) bool {
	if !log.tidied {
		return true
	}
	info, err := os.Lstat(filepath.Join(r.config.LogsRoot, log.directory, log.container, log.log))
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	now := time.Now()
	log.growth = log.growth.after(info.Size(), now)
	log.look = now.Add(log.growth.untilFull(maxSize(r.config.Policy)))
	return info.Size() >= maxSize(r.config.Policy)
}

// settle records a rotation's or compression's result, and returns the error to report. While
// compressions are pending, success does not reset the back-off: the rotation before a compression
// that keeps failing succeeds each time.
func (r *Rotator) settle(log *containerLog, err error) error {
	if err == nil {
		log.tidied = true
		if len(log.compressions) == 0 {
			log.pause = 0
		}
		return nil
	}
	first := firstPause
	if errors.Is(err, errNoFile) {
		first = missingPause
	}
	log.pause = min(max(2*log.pause, first), maxPause)
	log.due = time.Now().Add(log.pause)
	log.tidied = false // the remaining steps are decided again, if the container still runs
	if errors.Is(err, errNoFile) {
		return nil
	}
	return fmt.Errorf("rotate: log of container %q of pod %s: %w", log.container, log.pod, err)
}

// rotate carries out the steps for a log, except compressions.
func (r *Rotator) rotate(ctx context.Context, log *containerLog) error {
	root, err := r.open(log)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFile // the container logs elsewhere, or not at all
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
	if err == nil {
		if _, err := root.Lstat(log.log); errors.Is(err, fs.ErrNotExist) {
			return errNoFile
		}
	}
	return err
}

// errNoFile means that the directory does not exist, or that the file does not exist after a successful reopen. Some
// runtimes write no files; for them the pauses between requests grow.
var errNoFile = errors.New("the runtime writes no file")

// open opens a log's directory.
func (r *Rotator) open(log *containerLog) (*os.Root, error) {
	for field, name := range map[string]string{"directory of the pod": log.directory, "name": log.container} {
		if err := hostfs.Element(field, name); err != nil {
			return nil, err
		}
	}
	return openDirectory(r.config.LogsRoot, log.directory, log.container)
}

// unfinished returns the logs with pending compressions that do not back off, ordered by their last service.
func (r *Rotator) unfinished() []*containerLog {
	now := time.Now()
	var logs []*containerLog
	for _, log := range r.logs {
		if len(log.compressions) > 0 && !now.Before(log.due) {
			logs = append(logs, log)
		}
	}
	slices.SortFunc(logs, func(a, b *containerLog) int {
		return cmp.Or(a.compressed.Compare(b.compressed), strings.Compare(a.id, b.id))
	})
	return logs
}

// compressLog compresses one log for at most compressTurn.
func (r *Rotator) compressLog(ctx context.Context, log *containerLog) error {
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
