package recorder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime/hostfs"
	"github.com/podsync/podsync/syncpod/loop"
)

// Config configures a Recorder.
type Config struct {
	// Dir is the absolute path of the directory for the files. Required. It is created with mode 0700.
	Dir string
	// MaxBytes is the maximum size of all files; beyond it the oldest decisions are removed. Default 32 MiB.
	MaxBytes int64
}

// The files: the newest decisions, and those before.
const (
	newestFile = "decisions.jsonl"
	olderFile  = "decisions.1.jsonl"
)

const (
	defaultMaxBytes = 32 << 20
	// maxQueued is the number of decisions that may wait for the disk. More are dropped, because no pod waits for a record.
	maxQueued = 1000
	// maxPods is the number of pods whose last plan is known. Beyond it all are forgotten.
	maxPods = 10_000
	// maxLine is the maximum size of a decision.
	maxLine = 4 << 20
)

// A Recorder records decisions. Set Record as syncpod.Config.Decided, and the Recorder as one of agent.Config.Parts.
type Recorder struct {
	config  Config
	queue   chan Decision
	dropped atomic.Int64

	mu sync.Mutex
	// last are the last plans of pods. A plan that repeats is recorded once.
	last map[types.UID]string
}

var _ loop.Part = (*Recorder)(nil)

// New returns a Recorder. It writes nothing before Run.
func New(c Config) (*Recorder, error) {
	switch {
	case !filepath.IsAbs(c.Dir):
		return nil, fmt.Errorf("recorder: Config.Dir %q is not an absolute path", c.Dir)
	case c.MaxBytes < 0:
		return nil, fmt.Errorf("recorder: Config.MaxBytes %d is negative", c.MaxBytes)
	case c.MaxBytes == 0:
		c.MaxBytes = defaultMaxBytes
	}
	return &Recorder{config: c, queue: make(chan Decision, maxQueued), last: map[types.UID]string{}}, nil
}

// Record queues a decision, unless the plan is that of the pod's last decision. It does not block.
func (r *Recorder) Record(in actions.Input, plan actions.Plan) {
	if in.Pod == nil {
		return
	}
	text := plan.String()
	if r.repeats(in.Pod.UID, text) {
		return
	}
	d := decisionOf(in)
	d.Time, d.Plan, d.Dropped = time.Now().UTC(), text, r.dropped.Swap(0)
	select {
	case r.queue <- d:
	default:
		r.dropped.Add(d.Dropped + 1)
	}
}

func (r *Recorder) repeats(pod types.UID, plan string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, known := r.last[pod]; known && last == plan {
		return true
	}
	if len(r.last) >= maxPods {
		clear(r.last)
	}
	r.last[pod] = plan
	return false
}

// Run writes the decisions until ctx ends, and then those that are queued. If the disk fails, it goes on: the next decision
// says how many are lost.
func (r *Recorder) Run(ctx context.Context, _ loop.Host) error {
	for {
		select {
		case d := <-r.queue:
			r.write(d)
		case <-ctx.Done():
			for len(r.queue) > 0 {
				r.write(<-r.queue)
			}
			return nil
		}
	}
}

func (r *Recorder) write(d Decision) {
	line, err := json.Marshal(d)
	if err == nil {
		err = r.append(append(line, '\n'))
	}
	if err != nil {
		r.dropped.Add(d.Dropped + 1)
	}
}

// append adds a line to the newest file, which becomes the older one when it has half of the maximum size. A line that is
// cut by a crash is ended first.
func (r *Recorder) append(line []byte) error {
	if err := os.MkdirAll(r.config.Dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(r.config.Dir, newestFile)
	info, err := os.Lstat(path)
	if err == nil && info.Size()+int64(len(line)) > r.config.MaxBytes/2 {
		err = os.Rename(path, filepath.Join(r.config.Dir, olderFile))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	return errors.Join(err, file.Close())
}

// Read calls visit with each decision in a directory, the oldest first, until visit returns an error. It passes over a
// line that a crash has cut. A directory without decisions is an error.
func Read(dir string, visit func(Decision) error) error {
	found := false
	for _, name := range []string{olderFile, newestFile} {
		err := readFile(filepath.Join(dir, name), visit)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		found = true
	}
	if !found {
		return fmt.Errorf("recorder: %s has no decisions: %w", dir, fs.ErrNotExist)
	}
	return nil
}

func readFile(path string, visit func(Decision) error) error {
	file, _, err := hostfs.OpenPath(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var d Decision
		if line := bytes.TrimSpace(lines.Bytes()); len(line) == 0 || json.Unmarshal(line, &d) != nil {
			continue
		}
		if err := visit(d); err != nil {
			return err
		}
	}
	return lines.Err()
}
