package device

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
)

// An Allocator allocates devices to containers.
type Allocator interface {
	// Allocate returns the allocation of a container in a pod. If the agent ended before the result
	// was persisted, Allocate is called again for the same container, and should then return the same
	// allocation. If it returns an error, the container is not created, and Allocate is retried with
	// back-off. Allocate must not modify pod and container.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (Allocation, error)
	// Release frees everything allocated to a pod that was removed. It is called until it returns
	// nil, possibly once more, and also for pods without allocations.
	Release(ctx context.Context, pod types.UID) error
}

// Config configures a Keeper. All fields are required.
type Config struct {
	// State is the absolute path of a directory with a file for each pod that has allocations. It
	// is created when it is needed.
	State string
	// Allocator allocates devices to containers.
	Allocator Allocator
}

// stateVersion is the version of the files' format.
const stateVersion = 1

// stored is a file's content.
type stored struct {
	Version    int                   `json:"version"`
	Containers map[string]Allocation `json:"containers"`
}

// A Keeper persists allocations. Its methods may be called concurrently.
type Keeper struct {
	allocator Allocator
	files     podfile.Dir

	mu   sync.Mutex
	pods map[types.UID]*keptPod
}

// keptPod is one pod's state. Its lock is held while the Allocator is called for the pod and
// while its file is written.
type keptPod struct {
	mu         sync.Mutex
	read       bool
	containers map[string]Allocation
}

// New returns a Keeper. It reads nothing yet.
func New(c Config) (*Keeper, error) {
	switch {
	case !filepath.IsAbs(c.State):
		return nil, fmt.Errorf("device: Config.State is %q, want an absolute path", c.State)
	case c.Allocator == nil:
		return nil, errors.New("device: Config.Allocator is missing")
	}
	return &Keeper{allocator: c.Allocator, files: podfile.Dir(c.State), pods: map[types.UID]*keptPod{}}, nil
}

// Allocate returns a container's allocation. If none is persisted, it calls the Allocator, and returns when
// the result is on the disk.
func (k *Keeper) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (Allocation, error) {
	p := k.of(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(k.files, pod.UID); err != nil {
		return Allocation{}, fmt.Errorf("device: %w", err)
	}
	if given, ok := p.containers[container.Name]; ok {
		return given, nil
	}
	given, err := k.allocator.Allocate(ctx, pod, container)
	if err != nil || given.isZero() {
		return Allocation{}, err
	}
	if err := given.Validate(); err != nil {
		return Allocation{}, fmt.Errorf("device: what container %q is given: %w", container.Name, err)
	}
	if err := p.keep(k.files, pod.UID, container.Name, given); err != nil {
		return Allocation{}, fmt.Errorf("device: %w", err)
	}
	return given, nil
}

// Choose does nothing: a Keeper allocates a container's devices when the container is created. A part that embeds the Keeper may
// choose earlier.
func (k *Keeper) Choose(context.Context, *v1.Pod, *v1.Container) error { return nil }

// Devices reports no health of devices. A part that embeds the Keeper may report it (KEP-4680).
func (k *Keeper) Devices(*v1.Pod) map[string][]v1.ResourceStatus { return nil }

// Allocations returns the persisted allocations of the containers of all pods, by container name. An
// Allocator uses it at start to restore the allocations of earlier agents. errs holds the errors of
// pods whose file is unreadable or invalid, by pod; err is the error of reading the directory.
func (k *Keeper) Allocations() (given map[types.UID]map[string]Allocation, errs map[types.UID]error, err error) {
	uids, err := k.files.List()
	if err != nil {
		return nil, nil, fmt.Errorf("device: %w", err)
	}
	given, errs = map[types.UID]map[string]Allocation{}, map[types.UID]error{}
	for _, uid := range uids {
		var p keptPod
		if err := p.load(k.files, uid); err != nil {
			errs[uid] = fmt.Errorf("device: %w", err)
			continue
		}
		given[uid] = p.containers
	}
	return given, errs, nil
}

// Notify does nothing: the allocations that a Keeper returns do not change.
func (k *Keeper) Notify(func(pod types.UID)) {}

// KeptPods returns the pods with a file on the disk, sorted, including those whose file is
// unreadable.
func (k *Keeper) KeptPods() ([]types.UID, error) {
	uids, err := k.files.List()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return uids, nil
}

// RemovePod frees the allocations of a pod that does not run. It succeeds if the pod has none.
func (k *Keeper) RemovePod(ctx context.Context, uid types.UID) error {
	p := k.of(uid)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := k.allocator.Release(ctx, uid); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	if err := k.files.Remove(uid); err != nil {
		return fmt.Errorf("device: %w", err)
	}
	p.read, p.containers = false, nil
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.pods, uid)
	return nil
}

func (k *Keeper) of(uid types.UID) *keptPod {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pods[uid]
	if p == nil {
		p = &keptPod{}
		k.pods[uid] = p
	}
	return p
}

// load reads the file that an earlier agent has written. An invalid file is an error: a container may still use its
// devices, so to allocate other devices would be worse than to allocate none.
func (p *keptPod) load(files podfile.Dir, uid types.UID) error {
	if p.read {
		return nil
	}
	var s stored
	err := files.ReadJSON(uid, &s)
	if errors.Is(err, fs.ErrNotExist) {
		p.read, p.containers = true, map[string]Allocation{}
		return nil
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return fmt.Errorf("what pod %s was given, below %s: %w", uid, files, err)
	}
	p.read, p.containers = true, s.Containers
	return nil
}

func (s *stored) check() error {
	if s.Version != stateVersion || s.Containers == nil {
		return fmt.Errorf("the file has version %d, and this agent reads %d", s.Version, stateVersion)
	}
	for name, given := range s.Containers {
		if err := given.Validate(); err != nil {
			return fmt.Errorf("container %q: %w", name, err)
		}
	}
	return nil
}

// keep persists a container's allocation.
func (p *keptPod) keep(files podfile.Dir, uid types.UID, container string, given Allocation) error {
	p.containers[container] = given
	err := files.ReplaceJSON(uid, stored{Version: stateVersion, Containers: p.containers}, true)
	if err != nil {
		delete(p.containers, container)
	}
	return err
}
