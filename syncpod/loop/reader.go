package loop

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
)

// reader begins the first look at each pod with what an earlier agent has seen of it.
type reader struct {
	pleg.Reader
	before *seenBefore
}

// List returns when it is known what an earlier agent has seen, too: looks follow from it.
func (r reader) List(ctx context.Context) ([]*cri.ListedPod, error) {
	pods, err := r.Reader.List(ctx)
	if err == nil {
		err = r.before.await(ctx)
	}
	return pods, err
}

func (r reader) Inspect(ctx context.Context, listed *cri.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
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

// seenBefore is what an earlier agent has seen of pods, until this one has seen them all. What
// it has seen of a sandbox or a container holds for as long as that is in the same state, as
// what this one has seen does; IDs are not used again. So after a restart of the agent the
// runtime is not asked for all that it has, which is not new.
type seenBefore struct {
	// known is closed when all is added that could be read.
	known chan struct{}
	mu    sync.Mutex
	pods  map[types.UID]*runtime.PodStatus
}

func newSeenBefore() *seenBefore { return &seenBefore{known: make(chan struct{})} }

func (s *seenBefore) add(statuses []StoredStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = make(map[types.UID]*runtime.PodStatus, len(statuses))
	for _, stored := range statuses {
		if stored.Runtime != nil {
			s.pods[stored.UID] = stored.Runtime
		}
	}
}

// restored says that no more will be added.
func (s *seenBefore) restored() { close(s.known) }

func (s *seenBefore) await(ctx context.Context) error {
	select {
	case <-s.known:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("what is remembered of pods is still being read: %w", context.Cause(ctx))
	}
}

// of returns what was seen of a pod, nil if that is not known.
func (s *seenBefore) of(uid types.UID) *runtime.PodStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// forget is told of a pod that this agent has seen.
func (s *seenBefore) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// forgetOthers is told which pods there are.
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
