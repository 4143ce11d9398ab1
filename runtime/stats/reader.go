package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/podsync/podsync/runtime"
)

// Config is what a Reader is made of.
type Config struct {
	// Runtime is asked first. Required.
	Runtime Runtime
	// Root has the node's proc and sys/fs/cgroup. Default: the root of the file system
	// that this process sees.
	Root fs.FS
	// Dir is the directory whose file system is told as that of the node, an absolute
	// path. Default: the root directory.
	Dir string
}

// A Source reads the usage of the node and of pods: a *Reader, or a source of the program's own.
// With an error it returns the usage that it could read.
type Source interface {
	ReadNode(ctx context.Context) (Node, error)
	Read(ctx context.Context, pods []*runtime.PodStatus) (Stats, error)
}

var _ Source = (*Reader)(nil)

// A Reader reads what a node and its pods use. Make one with New; it may be used
// concurrently. It remembers where cgroups are, and readings of CPU time to tell rates.
type Reader struct {
	config Config

	mu    sync.Mutex
	found finder
	rates meter
	sums  sums
}

// New returns a Reader. The error names the field of the Config that is missing or wrong.
func New(c Config) (*Reader, error) {
	switch {
	case c.Runtime == nil:
		return nil, errors.New("stats: Config.Runtime is missing")
	case c.Dir != "" && !filepath.IsAbs(c.Dir):
		return nil, fmt.Errorf("stats: Config.Dir %q is not an absolute path", c.Dir)
	}
	if c.Root == nil {
		c.Root = os.DirFS("/")
	}
	if c.Dir == "" {
		c.Dir = "/"
	}
	return &Reader{config: c, rates: meter{base: map[string]reading{}}, sums: sums{}}, nil
}

// Read returns what the node uses and what these pods do, of which those are left out
// that have no sandbox that is ready. What could be read is there even with an error,
// which joins all that could not. What is remembered of other pods is forgotten, so ask for
// all of them each time.
func (r *Reader) Read(ctx context.Context, pods []*runtime.PodStatus) (Stats, error) {
	return r.read(ctx, pods, true)
}

// ReadNode returns what is left on the node of memory, room on disks and processes: nothing
// of CPU, network or pods. It asks the runtime where images are, and for nothing else. What
// could be read is there even with an error, which joins all that could not.
func (r *Reader) ReadNode(ctx context.Context) (Node, error) {
	read := &run{files: files{FS: r.config.Root}, disks: disks{seen: map[string]*FS{}}, now: time.Now(), all: true}
	n := Node{Memory: read.nodeMemory(read.now), FS: read.mustOf(r.config.Dir)}
	n.Processes, n.MaxProcesses = read.nodeProcesses()
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	n.ImageFS, n.ContainerFS = read.imageFS(ctx, r.config.Runtime)
	return n, errors.Join(append(read.files.errs, read.disks.errs...)...)
}

// ReadCPUAndMemory is Read of CPU and memory alone, which costs less.
func (r *Reader) ReadCPUAndMemory(ctx context.Context, pods []*runtime.PodStatus) (Stats, error) {
	return r.read(ctx, pods, false)
}
