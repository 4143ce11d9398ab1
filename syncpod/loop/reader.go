package loop

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/runtime/pleg"
)

// reader tells the syncer of each status that the watcher reads. Work on a pod takes
// its time: a container may have exited, and its record be lost, before the next work
// begins.
type reader struct {
	pleg.Reader
	syncer syncer
}

func (r reader) Inspect(ctx context.Context, listed *cri.ListedPod, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.Inspect(ctx, listed, prev)
	return r.told(ctx, status, err)
}

func (r reader) PodStatus(ctx context.Context, uid types.UID, prev *runtime.PodStatus) (*runtime.PodStatus, error) {
	status, err := r.Reader.PodStatus(ctx, uid, prev)
	return r.told(ctx, status, err)
}

func (r reader) told(ctx context.Context, status *runtime.PodStatus, err error) (*runtime.PodStatus, error) {
	if err == nil && status != nil {
		r.syncer.Observe(ctx, status)
	}
	return status, err
}
