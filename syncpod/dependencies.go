package syncpod

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/deps"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
	"github.com/podsync/podsync/syncpod/lifecycle"
	"github.com/podsync/podsync/syncpod/poddir"
)

// dependencies are the parts of a Syncer. A test can replace each.
type dependencies struct {
	deps.Dependencies
	// Hooks runs postStart and preStop handlers, by default a *handler.Runner. It must return when its context ends. Its
	// error must not contain the output of a command; its result is not used.
	Hooks lifecycle.Hooks
	// Refresh, Volumes, Mounts and Messages are nil without a Root. By default Volumes is a *local.Volumes, and
	// the other three are a *poddir.Dirs around it.
	Refresh  refresher
	Volumes  poddir.Volumes
	Mounts   mounter
	Messages terminationMessages
	// FileKey reads variables from files in the volumes of pods. It is missing without a Root.
	FileKey func(ctx context.Context, pod *v1.Pod, ref *v1.FileKeySelector) (string, error)
}

// refresher updates the mounted files of ConfigMaps, Secrets and tokens. SyncPod calls it at its end for each pod that
// may run. It must return when ctx ends, after at most 5 s. An error only becomes an event; it must not contain a
// secret.
type refresher interface {
	// RefreshPod updates the files that PreparePod has created. next is when to call it again, zero if it need not be called
	// before the pod changes.
	RefreshPod(ctx context.Context, pod *v1.Pod) (next time.Time, err error)
}

// mounter provides the mounts and devices of one container: volumes, /etc/hosts, the termination message file.
type mounter interface {
	Mounts(ctx context.Context, req container.MountRequest) (container.Mounts, error)
}

// terminationMessages reads the termination messages of containers.
type terminationMessages interface {
	// TerminationMessage returns the termination message of a container that has exited: the
	// runtime's own, c.TerminationMessage, and after it the container's, from its
	// terminationMessagePath or its log. With an error it returns the part that it could read.
	TerminationMessage(pod *v1.Pod, c *runtime.ContainerStatus) (string, error)
}
