package syncpod

import (
	"context"
	"slices"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/container"
)

// startMounts are mounts on the node that exist only during the start of one container instance.
type startMounts struct {
	// id is the runtime's ID of the instance.
	id      string
	release func() error
}

// redactedMounts removes the values of Secrets from the errors of a Mounter, because paths of mounts are expanded with them.
type redactedMounts struct {
	Mounter
	known *memories
}

func (r redactedMounts) Mounts(ctx context.Context, in container.MountRequest) (container.Mounts, error) {
	made, err := r.Mounter.Mounts(ctx, in)
	m := r.known.get(in.Pod.UID)
	if m == nil {
		return made, err
	}
	if release := made.Release; release != nil {
		made.Release = func() error { return m.secrets.redactError(release()) }
	}
	return made, m.secrets.redactError(err)
}

// releaseMounts releases the mounts of unfinished starts of the instances for which over returns true.
func (s *Syncer) releaseMounts(m *podMemory, over func(id string) bool) {
	s.releaseEach(m, m.takeMounts(over))
}

// startHasEnded returns a function that reports whether an instance has started, or has been removed.
func startHasEnded(status *runtime.PodStatus) func(id string) bool {
	return func(id string) bool {
		return !slices.ContainsFunc(status.Containers, func(c runtime.ContainerStatus) bool {
			return c.ID.ID == id && c.State == runtime.ContainerCreated
		})
	}
}

// releaseEach logs failures. The remaining mounts are unmounted at the container's next start, or when the pod is
// removed.
func (s *Syncer) releaseEach(m *podMemory, ended []startMounts) {
	for _, mounts := range ended {
		if err := mounts.release(); err != nil {
			s.config.Log.Error(err, "a mount for the start of a container stays", "podUID", m.uid, "containerID", mounts.id)
		}
	}
}

// setMounts records the mounts of a start that was not completed. The zero value drops those of an earlier start,
// because a later start has replaced them.
func (m *podMemory) setMounts(name string, mounts startMounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.mounts, name)
	if mounts.release != nil {
		put(&m.mounts, name, mounts)
	}
}

// takeMounts forgets and returns the instances' mounts for which over returns true.
func (m *podMemory) takeMounts(over func(id string) bool) (ended []startMounts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, mounts := range m.mounts {
		if over(mounts.id) {
			ended = append(ended, mounts)
			delete(m.mounts, name)
		}
	}
	return ended
}
