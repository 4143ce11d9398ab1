package userns

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Runtime reports which handlers support user namespaces. A *cri.Client implements it.
type Runtime interface {
	Status(context.Context, *runtimeapi.StatusRequest, ...grpc.CallOption) (*runtimeapi.StatusResponse, error)
}

// Config configures an Allocator.
type Config struct {
	// Dir is the directory of the pods' directories, an absolute path: pods below the agent's root. Required.
	Dir string
	// IDs are the IDs of the node that pods may have. Default: all except the first 65536, and 65536 for each pod.
	IDs IDs
	// Runtime is the container runtime. Required.
	Runtime Runtime
}

// An Allocator gives each pod with its own user namespace a range of IDs. Its methods may be called concurrently.
type Allocator struct {
	dir     directory
	ids     IDs
	runtime Runtime

	mu sync.Mutex
	// taken are the ranges of the pods, nil before the files are read.
	taken map[types.UID]span
}

// New returns an Allocator that has read no file. The error names the missing or invalid field of the Config.
func New(c Config) (*Allocator, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("userns: Config.Dir %q is not an absolute path", c.Dir)
	}
	if c.Runtime == nil {
		return nil, errors.New("userns: Config.Runtime is missing")
	}
	ids, err := c.IDs.complete()
	if err != nil {
		return nil, fmt.Errorf("userns: Config.IDs.%w", err)
	}
	return &Allocator{dir: directory(c.Dir), ids: ids, runtime: c.Runtime}, nil
}

// UserNamespace returns the mapping of IDs of a pod: the same for as long as the pod has not been cleaned up, and nil for a pod
// with the node's users. handler is the runtime handler for the pod. It returns an error if the handler does not support user
// namespaces, because root in the pod would be root of the node.
func (a *Allocator) UserNamespace(ctx context.Context, pod *v1.Pod, handler string) (*runtimeapi.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	if err := a.supported(ctx, handler); err != nil {
		return nil, err
	}
	s, err := a.allocate(pod.UID)
	if err != nil {
		return nil, err
	}
	ids := []*runtimeapi.IDMapping{{HostId: s.first, Length: s.length}}
	return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids, Gids: ids}, nil
}

// supported returns why the runtime cannot run a pod in a user namespace, nil if it can. It asks each time: the runtime may
// have been replaced by an older one, which would ignore the mapping.
func (a *Allocator) supported(ctx context.Context, handler string) error {
	status, err := a.runtime.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("spec.hostUsers is false, and whether the runtime supports user namespaces is unknown: %w", err)
	}
	for _, h := range status.GetRuntimeHandlers() {
		if h.GetName() == handler && h.GetFeatures().GetUserNamespaces() {
			return nil
		}
	}
	if handler != "" {
		return fmt.Errorf("spec.hostUsers is false, and the runtime handler %q does not support user namespaces", handler)
	}
	return errors.New("spec.hostUsers is false, and the runtime does not support user namespaces")
}

func (a *Allocator) allocate(uid types.UID) (span, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.taken == nil {
		taken, err := a.dir.list()
		if err != nil {
			return span{}, err
		}
		a.taken = taken
	}
	if s, ok := a.taken[uid]; ok {
		return s, nil
	}
	spans := make([]span, 0, len(a.taken))
	for _, s := range a.taken {
		spans = append(spans, s)
	}
	s, ok := a.ids.free(spans)
	if !ok {
		return span{}, fmt.Errorf("spec.hostUsers is false, and all IDs of the node are taken by %d pods", len(a.taken))
	}
	if err := a.dir.write(uid, s); err != nil {
		return span{}, err
	}
	a.taken[uid] = s
	return s, nil
}

// RemovePod frees the range of a pod that does not run. It succeeds if the pod has none.
func (a *Allocator) RemovePod(_ context.Context, uid types.UID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.dir.remove(uid); err != nil {
		return err
	}
	delete(a.taken, uid)
	return nil
}
