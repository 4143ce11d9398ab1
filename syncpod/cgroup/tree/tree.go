package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"reflect"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/internal/podfile"
	"github.com/podsync/podsync/syncpod/cgroup"
	"github.com/podsync/podsync/syncpod/podspec/qos"
)

// Tree keeps pod cgroups. Its methods may be called concurrently.
type Tree struct {
	config Config
	root   cgroup.Name
	made   podfile.Dir
	kernel kernel
	// afterMkdir and beforeRemove are called for each directory. Tests use them to create and remove
	// the files that the kernel would.
	afterMkdir, beforeRemove func(mount *os.Root, dir string) error

	// mu is held while settings are written.
	mu sync.Mutex
	// pods are the known pods with a cgroup.
	pods map[types.UID]*v1.Pod
	// applied are the last written settings, by path.
	applied map[string]cgroup.Resources
}

// New returns a Tree. It determines which trees the kernel has mounted, and changes nothing.
func New(c Config) (*Tree, error) {
	if err := c.setDefaults(); err != nil {
		return nil, err
	}
	root, err := cgroup.ParseName(c.Root)
	if err != nil {
		return nil, fmt.Errorf("tree: Config.Root: %w", err)
	}
	if len(root) == 0 {
		return nil, errors.New("tree: Config.Root is the root of the tree, want a cgroup below it")
	}
	t := &Tree{config: c, root: root, made: podfile.Dir(c.State), pods: map[types.UID]*v1.Pod{}, applied: map[string]cgroup.Resources{}}
	err = t.in(func(mount *os.Root) (err error) {
		t.kernel, err = look(mount)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tree: Config.Mount: cgroups in %s: %w", c.Mount, err)
	}
	return t, nil
}

// PodsCgroup returns the path of the cgroup of all pods in each of the kernel's trees, such as /kubepods.
func (t *Tree) PodsCgroup() string { return t.root.Path(t.config.Driver) }

// EnsurePodsCgroup creates the cgroup of all pods, with its limits, and those of the QoS classes in it. It updates the
// limits for all pods if they exist, unless the Tree has pod records: then the first EnsureCgroup does so. The settings
// for an existing class stay, because they depend on its pods. The error is [cgroup.ErrMemoryInUse] if the pods use more
// memory than their limit. A kubelet has these cgroups from its start, and programs of the node expect that.
func (t *Tree) EnsurePodsCgroup(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if made, err := t.made.List(); err != nil || len(made) > 0 {
		return err
	}
	err := t.in(func(mount *os.Root) error {
		errs := []error{t.setAbove(ctx, mount, v1.PodQOSGuaranteed)}
		for _, class := range []v1.PodQOSClass{v1.PodQOSBurstable, v1.PodQOSBestEffort} {
			name, err := cgroup.ClassName(t.root, class)
			if err == nil && !t.exists(mount, name.Path(t.config.Driver)) {
				err = t.setAbove(ctx, mount, class)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return fmt.Errorf("tree: cgroup %s of all pods: %w", t.PodsCgroup(), err)
	}
	return nil
}

// in calls f with the mount, which confines all paths.
func (t *Tree) in(f func(mount *os.Root) error) error {
	mount, err := os.OpenRoot(t.config.Mount)
	if err != nil {
		return err
	}
	return errors.Join(f(mount), mount.Close())
}

// EnsureCgroup creates or updates a pod's cgroup, and returns its path in the form that the
// driver uses, for CRI's cgroup_parent. If the cgroup is up to date, it makes no change. If a
// memory limit is below the memory in use, it is not set, and the error is
// [cgroup.ErrMemoryInUse].
func (t *Tree) EnsureCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error) {
	return t.set(ctx, pod, false)
}

// RaiseCgroup is the first half of a resize: it raises limits for the pod's cgroup to the desired values and
// lowers none, so that the containers fit before and after they are resized. EnsureCgroup is the second half.
// If an earlier agent created the cgroup, RaiseCgroup reads its current limits from the kernel.
func (t *Tree) RaiseCgroup(ctx context.Context, pod *v1.Pod) (parent string, err error) {
	return t.set(ctx, pod, true)
}

func (t *Tree) set(ctx context.Context, pod *v1.Pod, raise bool) (string, error) {
	if pod == nil {
		return "", errors.New("tree: the pod is nil")
	}
	class := qos.Class(pod)
	name, err := cgroup.PodName(t.root, class, pod.UID)
	if err != nil {
		return "", fmt.Errorf("tree: pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r, err := cgroup.ResourceConfigForPod(cgroup.Input{
		Pod: pod, NoCPUQuota: t.config.NoCPUQuota || t.config.ExclusiveCPUs != nil && t.config.ExclusiveCPUs(pod.UID), CPUPeriod: t.config.CPUPeriod,
		MemoryReservation: t.config.MemoryReservation, PIDs: t.config.PodPIDs,
	})
	if err != nil {
		return "", fmt.Errorf("tree: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := name.Path(t.config.Driver)
	err = t.in(func(mount *os.Root) error {
		if raise {
			r = t.raised(mount, at, r)
		}
		t.pods[pod.UID] = pod
		if err := t.setAbove(ctx, mount, class); err != nil {
			return err
		}
		if err := t.mark(mount, pod.UID, at); err != nil {
			return err
		}
		return t.apply(ctx, mount, at, r, how{pod: true, raise: raise})
	})
	if err != nil {
		return "", fmt.Errorf("tree: cgroup %s of pod %s/%s: %w", at, pod.Namespace, pod.Name, err)
	}
	return at, nil
}

// raised returns settings that lower no limit for a cgroup.
func (t *Tree) raised(mount *os.Root, at string, next cgroup.Resources) cgroup.Resources {
	last, ok := t.applied[at]
	if !ok {
		last, ok = t.current(mount, at)
	}
	if !ok {
		return next
	}
	return cgroup.Larger(last, next)
}

// setAbove updates the cgroups above the pods of a QoS class.
func (t *Tree) setAbove(ctx context.Context, mount *os.Root, class v1.PodQOSClass) error {
	above := cgroup.Above{Allocatable: t.config.Allocatable, MemoryReservation: t.config.MemoryReservation}
	for _, pod := range t.pods {
		above.Pods = append(above.Pods, pod)
	}
	for i := 1; i < len(t.root); i++ { // cgroups that are not only for pods are created without limits
		if err := t.make(ctx, mount, t.root[:i].Path(t.config.Driver)); err != nil {
			return err
		}
	}
	r, err := cgroup.ResourceConfigForNode(above)
	if err == nil {
		err = t.apply(ctx, mount, t.root.Path(t.config.Driver), r, how{})
	}
	if err != nil || class == v1.PodQOSGuaranteed {
		return err
	}
	name, err := cgroup.ClassName(t.root, class)
	if err != nil {
		return err
	}
	return t.apply(ctx, mount, name.Path(t.config.Driver), cgroup.ResourceConfigForQOSClass(above, class), how{})
}

// mark records that this Tree creates a pod's cgroup, unless it exists without a record.
func (t *Tree) mark(mount *os.Root, uid types.UID, at string) error {
	_, err := t.made.Read(uid)
	if err == nil || !errors.Is(err, fs.ErrNotExist) || t.exists(mount, at) {
		return ignoreNotExist(err)
	}
	return t.made.ReplaceJSON(uid, struct{}{}, false)
}

// exists reports whether the cgroup exists in any of the trees.
func (t *Tree) exists(mount *os.Root, at string) bool {
	for _, tree := range t.kernel.trees {
		if _, err := mount.Lstat(path.Join(tree, at)); err == nil {
			return true
		}
	}
	return false
}

// RemovePod removes a terminated pod's cgroup if this Tree created it. It kills processes that
// still run in it.
func (t *Tree) RemovePod(ctx context.Context, uid types.UID) error {
	pod := t.forget(uid)
	if _, err := t.made.Read(uid); err != nil {
		return ignoreNotExist(err)
	}
	err := t.in(func(mount *os.Root) error {
		for _, class := range []v1.PodQOSClass{v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort} {
			name, err := cgroup.PodName(t.root, class, uid)
			if err == nil {
				err = t.remove(ctx, mount, name.Path(t.config.Driver))
			}
			if err != nil {
				return err
			}
		}
		return t.settle(ctx, mount, pod)
	})
	if err != nil {
		return fmt.Errorf("tree: cgroup of pod %s: %w", uid, err)
	}
	return t.made.Remove(uid)
}

// forget drops a pod and returns it, nil if it is unknown.
func (t *Tree) forget(uid types.UID) *v1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	pod := t.pods[uid]
	delete(t.pods, uid)
	return pod
}

// settle updates the cgroups above a removed pod's.
func (t *Tree) settle(ctx context.Context, mount *os.Root, pod *v1.Pod) error {
	if pod == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.setAbove(ctx, mount, qos.Class(pod))
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (t *Tree) upToDate(mount *os.Root, at string, r cgroup.Resources) bool {
	last, ok := t.applied[at]
	return ok && reflect.DeepEqual(last, r) && t.exists(mount, at)
}
