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

// Config configures a Reader.
type Config struct {
	// Runtime is the first source of figures. Required.
	Runtime Runtime
	// Root contains the node's proc and sys/fs/cgroup. Default: this process's root directory.
	Root fs.FS
	// Dir is an absolute path on the file system that is reported as the node's. Default: the root
	// directory.
	Dir string
	// PodsCgroup is the path of the cgroup of all pods in the memory controller's tree, such as /kubepods. Default: none.
	PodsCgroup string
}

// A Source reads the usage of the node and of pods. A *Reader implements it; tests replace it. With an error it returns
// the usage that it could read.
type Source interface {
	ReadNode(ctx context.Context) (Node, error)
	Read(ctx context.Context, pods []*runtime.PodStatus) (Stats, error)
}

var _ Source = (*Reader)(nil)

// A Reader reads the resource usage of a node and its pods. Create one with New. Its methods may be
// called concurrently. It caches cgroup locations, and readings of CPU time to compute rates.
type Reader struct {
	config Config

	mu    sync.Mutex
	found finder
	rates meter
	sums  sums
}

// New returns a Reader. An error names the invalid field of the Config.
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

// Read returns the usage of the node and of the given pods. It leaves out pods without a ready
// sandbox. With an error, which joins all failures, it still returns every figure that it could
// read. Pass all pods in each call: the Reader drops its cache of the others.
func (r *Reader) Read(ctx context.Context, pods []*runtime.PodStatus) (Stats, error) {
	return r.read(ctx, pods, true)
}

// ReadNode returns the node's memory, disk usage and number of processes, but no CPU, network or
// pods. The only call to the runtime is ImageFsInfo. With an error, which joins all failures, it
// still returns every figure that it could read.
func (r *Reader) ReadNode(ctx context.Context) (Node, error) {
	read := &run{files: files{FS: r.config.Root}, disks: disks{seen: map[string]*FS{}}, now: time.Now(), all: true}
	n := Node{Memory: read.nodeMemory(read.now), FS: read.mustOf(r.config.Dir)}
	if r.config.PodsCgroup != "" {
		n.PodsMemory = read.memoryOf(hierarchyOf(r.config.Root), r.config.PodsCgroup, read.now)
	}
	n.Rlimit = read.nodeRlimit(read.now)
	ctx, cancel := context.WithTimeout(ctx, runtimeTime)
	defer cancel()
	n.ImageFS, n.ContainerFS = read.imageFS(ctx, r.config.Runtime)
	return n, errors.Join(append(read.files.errs, read.disks.errs...)...)
}

// ReadCPUAndMemory is like Read, for CPU and memory only, and costs less.
func (r *Reader) ReadCPUAndMemory(ctx context.Context, pods []*runtime.PodStatus) (Stats, error) {
	return r.read(ctx, pods, false)
}
