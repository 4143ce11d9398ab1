package critest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime/cri/critest/faults"
	"github.com/podsync/podsync/runtime/cri/critest/internal/inject"
	"github.com/podsync/podsync/runtime/cri/critest/internal/streams"
)

// Runtime is an in-memory CRI runtime. Its methods may be called concurrently.
//
// New's caller must call Close, which ends every call, process and server of the runtime. Call both
// inside a testing/synctest bubble.
type Runtime struct {
	cfg     Config
	host    *host
	life    context.Context // ends with Close
	close   context.CancelFunc
	running sync.WaitGroup // processes and servers

	journal recorder
	faults  inject.Calls
	events  broker
	conns   connections
	streams streams.Server

	streaming   sync.Mutex
	streamsPipe *pipe // of DialStream, created at its first use; guarded by streaming

	mu         sync.Mutex
	closed     bool
	server     *grpc.Server    // created at its first use: runtimes reached through Direct need none
	epoch      context.Context // ends with a runtime restart
	endEpoch   context.CancelFunc
	away       time.Time // until when the runtime is down
	refusing   bool      // the runtime refuses connections while it is down
	made       int       // the number of IDs created so far
	sandboxes  map[string]*sandbox
	containers map[string]*container

	containersIn    groups[*container] // by sandbox
	containersOfPod groups[*container] // by the pod's UID
	sandboxesOfPod  groups[*sandbox]

	names      map[string]string // to the ID for which the name is reserved
	pending    map[string]bool   // names whose object is being created
	hidden     map[string]faults.View
	subjects   map[string]subject // by ID, including removed objects
	processes  []*Process         // ordered by their starts
	images     imageStore
	addresses  addresses
	conditions []*runtimeapi.RuntimeCondition
	pipe       *pipe    // of Dial
	silent     []string // ports on which nothing listens, as Problems reports them

	certificate func() (tls.Certificate, error) // of servers, created at its first use
}

// New creates a runtime. It opens Config.Dir and Config.LogsRoot, and starts no goroutine.
func New(cfg Config) (*Runtime, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	images, err := newImageStore(cfg)
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		cfg:        cfg,
		sandboxes:  map[string]*sandbox{},
		containers: map[string]*container{},

		containersIn:    groups[*container]{},
		containersOfPod: groups[*container]{},
		sandboxesOfPod:  groups[*sandbox]{},

		names:      map[string]string{},
		pending:    map[string]bool{},
		hidden:     map[string]faults.View{},
		subjects:   map[string]subject{},
		images:     images,
		addresses:  newAddresses(cfg.PodCIDRs),
		conditions: ready(),

		certificate: sync.OnceValues(newCertificate),
	}
	r.journal.limit = cfg.JournalLimit
	if r.host, err = openHost(cfg); err != nil {
		return nil, err
	}
	r.life, r.close = context.WithCancel(context.Background())
	r.epoch, r.endEpoch = context.WithCancel(r.life)
	return r, nil
}

// service implements CRI for a runtime, with a file for each call. It is its own type, so that the
// calls of an agent and the methods for tests are not mixed on one type.
type service struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
	*Runtime
}

// Close ends calls that hang, kills all processes, and stops the servers. It returns when all their
// goroutines have ended. The journal stays readable. A second Close does nothing.
func (r *Runtime) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	server := r.server
	r.mu.Unlock()
	r.close()
	if server != nil {
		server.Stop()
	}
	for _, c := range r.allContainers() {
		c.kill()
	}
	r.running.Wait()
	var errs []error
	for _, c := range r.allContainers() {
		errs = append(errs, c.log.close())
	}
	return errors.Join(errs...)
}

// newID returns IDs that look like a runtime's and are the same in every run. It must be called with mu
// held.
func (r *Runtime) newID() string {
	r.made++
	sum := sha256.Sum256(fmt.Appendf(nil, "critest %d", r.made))
	return hex.EncodeToString(sum[:])
}

// sandbox returns the sandbox with an ID, nil if there is none.
func (r *Runtime) sandbox(id string) *sandbox {
	r.mu.Lock()
	defer r.mu.Unlock()
	return byID(r.sandboxes, id)
}

func (r *Runtime) container(id string) *container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return byID(r.containers, id)
}

// byID returns the object with an ID, or with the only ID that begins so, as runtimes do. It returns nil if there is
// none. It must be called with mu held.
func byID[T any](objects map[string]*T, id string) *T {
	if o := objects[id]; o != nil || id == "" {
		return o
	}
	var found *T
	for full, o := range objects {
		if strings.HasPrefix(full, id) {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

func (r *Runtime) allContainers() []*container {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.containersOf("")
}

// containersOf returns a sandbox's containers, or all containers for "", oldest first. It must be
// called with mu held.
func (r *Runtime) containersOf(sandboxID string) []*container {
	from := maps.Values(r.containers)
	if sandboxID != "" {
		from = slices.Values(r.containersIn[sandboxID])
	}
	return oldestFirst(from, nil)
}

// allSandboxes returns the sandboxes, oldest first. It must be called with mu held.
func (r *Runtime) allSandboxes() []*sandbox {
	return oldestFirst(maps.Values(r.sandboxes), nil)
}
