package loop

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/pleg"
	podreader "github.com/podsync/podsync/runtime/reader"
	"github.com/podsync/podsync/syncpod/store"
)

// reader uses the statuses from an earlier agent for each pod's first
// inspection.
type reader struct {
	pleg.Reader
	before *seenBefore
}

// List returns after an earlier agent's statuses were loaded, because inspections depend on them.
func (r reader) List(ctx context.Context) ([]*podreader.ListedPod, error) {
	pods, err := r.Reader.List(ctx)
	if err == nil {
		err = r.before.await(ctx)
	}
	return pods, err
}

func (r reader) Inspect(ctx context.Context, listed *podreader.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.Inspect(ctx, listed, r.known(listed.UID, prev))
	return r.seen(status, err)
}

func (r reader) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.PodStatus(ctx, uid, r.known(uid, prev))
	return r.seen(status, err)
}

func (r reader) known(uid types.UID, prev *runtime.PodStatus) *runtime.PodStatus {
	if prev != nil {
		return prev
	}
	return r.before.of(uid)
}

func (r reader) seen(status *runtime.PodStatus, err error) (*runtime.PodStatus, error) {
	if err == nil && status != nil {
		r.before.forget(status.UID)
	}
	return status, err
}

// seenBefore holds the statuses that an earlier agent has recorded, until this agent has inspected
// each pod. The status of a sandbox or container stays valid while its state is the same, as with
// this agent's own statuses; IDs are not reused. So an agent restart does not inspect everything
// again.
type seenBefore struct {
	// known is closed when all readable statuses are loaded.
	known chan struct{}
	mu    sync.Mutex
	pods  map[types.UID]*runtime.PodStatus
}

func newSeenBefore() *seenBefore { return &seenBefore{known: make(chan struct{})} }

func (s *seenBefore) add(statuses []store.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = make(map[types.UID]*runtime.PodStatus, len(statuses))
	for _, stored := range statuses {
		if stored.Runtime != nil {
			s.pods[stored.UID] = stored.Runtime
		}
	}
}

// restored marks the statuses as loaded.
func (s *seenBefore) restored() { close(s.known) }

func (s *seenBefore) await(ctx context.Context) error {
	select {
	case <-s.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the stored statuses of pods are still being read: %w", context.Cause(ctx))
	}
}

// of returns a pod's recorded status, nil if there is none.
func (s *seenBefore) of(uid types.UID) *runtime.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// forget drops the status of a pod that this agent has inspected.
func (s *seenBefore) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// forgetOthers drops the statuses of all pods that no longer exist.
func (s *seenBefore) forgetOthers(than []pleg.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := make(map[types.UID]*runtime.PodStatus, len(s.pods))
	for _, p := range than {
		if seen := s.pods[p.UID]; seen != nil {
			there[p.UID] = seen
		}
	}
	s.pods = there
}
