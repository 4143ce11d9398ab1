package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/base/podfile"
)

// An Allocator gives devices to containers.
type Allocator interface {
	// Allocate returns what a container of a pod is given. It may be asked again for a
	// container that it has answered for, if the agent ended in between, and should answer
	// the same then. An error keeps the container from being created; it is asked again at
	// growing intervals. Pod and container are only read.
	Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (Allotment, error)
	// Release tells that a pod is gone, and so is what its containers were given. It is
	// called until it returns nil, maybe once more, and for pods that were given nothing, too.
	Release(ctx context.Context, pod types.UID) error
}

// Config is what a Keeper is made of. All of it is required.
type Config struct {
	// State is a directory, an absolute path, with a file for each pod that was given
	// devices. It is made when it is needed.
	State string
	// Allocator gives devices to containers.
	Allocator Allocator
}

// stateVersion is that of the format of the files.
const stateVersion = 1

// stored is the content of a file.
type stored struct {
	Version    int                  `json:"version"`
	Containers map[string]Allotment `json:"containers"`
}

// A Keeper remembers what containers were given. Its methods may be called concurrently.
type Keeper struct {
	allocator Allocator
	files     podfile.Dir

	mu   sync.Mutex
	pods map[types.UID]*keptPod
}

// keptPod is what is known of one pod. Its lock is held while the Allocator is asked for it
// and its file is written.
type keptPod struct {
	mu         sync.Mutex
	read       bool
	containers map[string]Allotment
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

// Allot returns what a container was given, or asks for it if it was given nothing yet. What
// was given is on the disk when Allot returns.
func (k *Keeper) Allot(ctx context.Context, pod *v1.Pod, container *v1.Container) (Allotment, error) {
	p := k.of(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(k.files, pod.UID); err != nil {
		return Allotment{}, fmt.Errorf("device: %w", err)
	}
	if given, ok := p.containers[container.Name]; ok {
		return given, nil
	}
	given, err := k.allocator.Allocate(ctx, pod, container)
	if err != nil || given.IsZero() {
		return Allotment{}, err
	}
	if err := given.Validate(); err != nil {
		return Allotment{}, fmt.Errorf("device: what container %q is given: %w", container.Name, err)
	}
	if err := p.keep(k.files, pod.UID, container.Name, given); err != nil {
		return Allotment{}, fmt.Errorf("device: %w", err)
	}
	return given, nil
}

// Allotments returns what the containers of all pods were given, by their names, as it is on the
// disk. An Allocator learns from that, before it is asked for the first time, what an agent
// before has given. The errors are those of pods whose file cannot be read or understood, by
// pod; err is that of the directory.
func (k *Keeper) Allotments() (given map[types.UID]map[string]Allotment, errs map[types.UID]error, err error) {
	uids, err := k.files.List()
	if err != nil {
		return nil, nil, fmt.Errorf("device: %w", err)
	}
	given, errs = map[types.UID]map[string]Allotment{}, map[types.UID]error{}
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

// KeptPods returns the pods that have something, as it is on the disk, also those whose file cannot
// be read, sorted.
func (k *Keeper) KeptPods() ([]types.UID, error) {
	uids, err := k.files.List()
	if err != nil {
		return nil, fmt.Errorf("device: %w", err)
	}
	return uids, nil
}

// CleanPod takes back what a pod was given.
func (k *Keeper) CleanPod(ctx context.Context, pod *v1.Pod) error { return k.RemovePod(ctx, pod.UID) }

// RemovePod is CleanPod for a pod of which no more than its UID is known.
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

// load reads what an agent before has written. A file that cannot be understood is an error:
// other devices than those that a container may yet use are worse than none.
func (p *keptPod) load(files podfile.Dir, uid types.UID) error {
	if p.read {
		return nil
	}
	text, err := files.Read(uid)
	if errors.Is(err, fs.ErrNotExist) {
		p.read, p.containers = true, map[string]Allotment{}
		return nil
	}
	var s stored
	if err == nil {
		err = parse(text, &s)
	}
	if err != nil {
		return fmt.Errorf("what pod %s was given, below %s: %w", uid, files, err)
	}
	p.read, p.containers = true, s.Containers
	return nil
}

func parse(text []byte, s *stored) error {
	if err := json.Unmarshal(text, s); err != nil {
		return err
	}
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

// keep writes that a container was given something.
func (p *keptPod) keep(files podfile.Dir, uid types.UID, container string, given Allotment) error {
	p.containers[container] = given
	text, err := json.Marshal(stored{Version: stateVersion, Containers: p.containers})
	if err == nil {
		err = files.Replace(uid, text, true)
	}
	if err == nil {
		err = files.Sync()
	}
	if err != nil {
		delete(p.containers, container)
	}
	return err
}
