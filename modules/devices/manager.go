package devices

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/loop"
)

// A Manager allocates plugin devices to containers. Its methods may be called concurrently, also
// while Run is not running; then no plugin can register.
type Manager struct {
	config                                   Config
	callTimeout, waitTimeout, saveRetryPause time.Duration

	keeper *device.Keeper
	known  knownFile
	// watchers are the goroutines that read plugin reports, and the one that retries failed writes.
	watchers sync.WaitGroup

	// registrations limits the rate of registrations.
	registrations *rate.Limiter

	mu      sync.Mutex
	ledger  *ledger.Ledger
	plugins map[string]*plugin
	// preStarts holds the resources whose plugin, connected or not, requires PreStartContainer.
	preStarts map[string]bool
	// unreadable has the error of each pod whose allocations cannot be read.
	unreadable map[types.UID]error
	// changed is closed when the ledger changes.
	changed chan struct{}
	notify  func(types.UID)
}

var (
	_ syncpod.Devices = (*Manager)(nil)
	_ loop.Admission  = (*Manager)(nil)
)

// Run accepts plugin registrations until ctx ends, and then disconnects all plugins. It returns an
// error if it cannot listen, for example because a kubelet or another agent serves the directory.
// It may be called again after it has returned.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.watchers.Wait()
	defer cancel()
	m.watchers.Go(func() { m.retrySave(ctx) })
	return m.serve(ctx)
}

// Allocate returns a container's allocation. The first call allocates the devices in the
// container's limits; later calls return the same allocation, and wait some seconds while its
// devices are unavailable. An allocation of an earlier agent whose device nodes exist needs no plugin: what has run on the node
// restarts while the plugin is away.
func (m *Manager) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error) {
	given, err := m.keeper.Allocate(ctx, pod, container)
	if err != nil || len(given.Resources) == 0 {
		return given, err
	}
	present := m.present(ctx, given)
	if err := m.await(ctx, func() error { return m.ledger.Ready(pod, container.Name, present) }); err != nil {
		return device.Allocation{}, err
	}
	return given, m.preStart(ctx, given.Resources)
}

// present reports whether the device nodes of an allocation exist, which has some. The runtime checks CDI devices. A plugin names
// the paths, so the wait for a file system that hangs has an end.
func (m *Manager) present(ctx context.Context, given device.Allocation) bool {
	if len(given.Devices)+len(given.CDIDevices) == 0 {
		return false // nothing shows that the devices exist
	}
	found := make(chan bool, 1)
	go func() {
		found <- !slices.ContainsFunc(given.Devices, func(d device.Device) bool {
			_, err := os.Stat(d.HostPath)
			return err != nil
		})
	}()
	select {
	case all := <-found:
		return all
	case <-time.After(m.waitTimeout):
	case <-ctx.Done():
	}
	return false
}

// Choose allocates a container's devices if they are available at once. It does not call PreStartContainer.
func (m *Manager) Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error {
	m.mu.Lock()
	needs := m.ledger.Needs(container)
	var err error
	for resource, n := range needs {
		if _, missing := m.choose(pod, container.Name, resource, n); missing != nil {
			err = missing
		}
	}
	m.mu.Unlock()
	if err != nil || len(needs) == 0 {
		return err
	}
	_, err = m.keeper.Allocate(ctx, pod, container)
	return err
}

// RemovePod frees the devices of a pod that does not run. It succeeds if the pod has none.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	return m.keeper.RemovePod(ctx, uid)
}

// KeptPods returns the pods that have allocations, sorted.
func (m *Manager) KeptPods() ([]types.UID, error) { return m.keeper.KeptPods() }

// await calls ask, with the lock held, until it returns something other than ErrWait, for waitTimeout at most.
func (m *Manager) await(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, m.waitTimeout)
	defer cancel()
	for {
		m.mu.Lock()
		err, changed := ask(), m.changed
		m.mu.Unlock()
		if !errors.Is(err, ledger.ErrWait) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-changed:
		}
	}
}

// notifyWaiters wakes the calls that wait for a change to the ledger. The caller holds the lock.
func (m *Manager) notifyWaiters() {
	close(m.changed)
	m.changed = make(chan struct{})
}
