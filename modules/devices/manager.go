package devices

import (
	"context"
	"errors"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/modules/devices/internal/ledger"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/device"
	"github.com/podsync/podsync/syncpod/loop"
)

// A Manager gives containers the devices of plugins. Its methods may be called concurrently,
// also while it does not run: then no plugin registers.
type Manager struct {
	config                                  Config
	callTimeout, waitTimeout, rememberPause time.Duration

	keeper *device.Keeper
	known  knownFile
	// watchers are the goroutines that hear what plugins report, and that which writes later
	// what could not be written of it.
	watchers sync.WaitGroup

	mu      sync.Mutex
	ledger  *ledger.Ledger
	plugins map[string]*plugin
	// preStarts has the resources whose plugin, which may be away, is to be told of each start.
	preStarts map[string]bool
	// unread are pods of which it is not known what they were given.
	unread map[types.UID]error
	// changed is closed when something is another in the ledger.
	changed chan struct{}
	notify  func(types.UID)
}

var (
	_ syncpod.Devices        = (*Manager)(nil)
	_ syncpod.OrphanCleaner  = (*Manager)(nil)
	_ syncpod.OrphanLister   = (*Manager)(nil)
	_ syncpod.DeviceReporter = (*Manager)(nil)
	_ loop.Admission         = (*Manager)(nil)
)

// Run has plugins register until ctx ends, and then forgets all that did. It returns an error
// if that cannot be, also because another agent or a kubelet serves plugins in the directory.
// It can be called again when it has returned.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer m.watchers.Wait()
	defer cancel()
	m.watchers.Go(func() { m.rememberLater(ctx) })
	return m.serve(ctx)
}

// Allot returns what a container is given. It is given devices that its limits ask for
// when it is created for the first time, and the same from then on, for which it waits
// some seconds while they cannot be had.
func (m *Manager) Allot(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allotment, error) {
	given, err := m.keeper.Allot(ctx, pod, container)
	if err != nil || len(given.Resources) == 0 {
		return given, err
	}
	if err := m.await(ctx, func() error { return m.ledger.Ready(pod, container.Name) }); err != nil {
		return device.Allotment{}, err
	}
	return given, m.preStart(ctx, given.Resources)
}

// CleanPod takes back what a pod was given.
func (m *Manager) CleanPod(ctx context.Context, pod *v1.Pod) error {
	return m.keeper.CleanPod(ctx, pod)
}

// RemovePod is CleanPod for a pod of which no more than its UID is known.
func (m *Manager) RemovePod(ctx context.Context, uid types.UID) error {
	return m.keeper.RemovePod(ctx, uid)
}

// KeptPods returns the pods that were given something, sorted.
func (m *Manager) KeptPods() ([]types.UID, error) { return m.keeper.KeptPods() }

// await asks something of the ledger, again and again while the answer is that waiting helps,
// but not for long. The lock is held when it is asked.
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

// tell wakes who waits for a change of the ledger. The lock is held.
func (m *Manager) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}
