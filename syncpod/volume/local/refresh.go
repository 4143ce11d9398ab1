package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/syncpod/volume"
)

const (
	// refreshInterval is the interval at which ConfigMaps and Secrets are read while a pod that mounts
	// them runs. It is about a kubelet's.
	refreshInterval = time.Minute
	// retryInterval is the pause after a failed update.
	retryInterval = 30 * time.Second
)

// Refresh updates the files in the volumes that SetUp has created below the pod's directory dir.
// Containers may run meanwhile: they see an update completely or not at all, and unchanged files
// are not written.
//
// next is when the next call is due unless the pod changes before, zero if nothing else can change:
// in a minute while ConfigMaps and Secrets may change, when a token must be renewed, and in half a
// minute after an error. All volumes are tried; errors are joined, and a volume with an error is
// unchanged.
func (v *Volumes) Refresh(ctx context.Context, pod *v1.Pod, dir string) (next time.Time, err error) {
	if pod == nil {
		return time.Time{}, errors.New("volume/local: the pod is nil")
	}
	others := countFileVolumes(pod)
	if others == 0 {
		return time.Time{}, nil
	}
	left := newRoom()
	err = eachMounted(pod, func(vol *v1.Volume) error {
		if !volume.KindOf(vol).OfFiles() {
			return nil
		}
		others--
		ctx, cancel := withShare(ctx, others)
		defer cancel()
		again, err := v.refresh(ctx, pod, vol, dir, left)
		if err != nil {
			again = sooner(again, time.Now().Add(retryInterval))
		}
		next = sooner(next, again)
		return err
	})
	return next, err
}

func (v *Volumes) refresh(ctx context.Context, pod *v1.Pod, vol *v1.Volume, dir string, left *room) (next time.Time, err error) {
	path, err := pathOf(vol, dir)
	if err != nil {
		return next, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return next, nil // it has not been set up
	}
	c, err := v.update(ctx, pod, vol, dir, left)
	if err != nil {
		return next, err
	}
	return c.next, errors.Join(c.stale...)
}

// update updates a volume's files, within the remaining limit.
func (v *Volumes) update(ctx context.Context, pod *v1.Pod, vol *v1.Volume, dir string, left *room) (*content, error) {
	path, err := pathOf(vol, dir)
	if err != nil {
		return nil, err
	}
	owners, err := v.ownersOf(pod)
	if err != nil {
		return nil, err
	}
	c := &content{config: &v.config, fixed: &v.fixed, pod: pod, dir: dir, path: path, owners: owners, room: left}
	if err := c.add(ctx, vol); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the response has arrived too late
		return nil, err
	}
	return c, c.write()
}

// withShare returns the context for one volume's update: it has half the remaining time, or all for the last volume.
func withShare(ctx context.Context, others int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || others == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/2)
}

// countFileVolumes counts the pod's mounted volumes that consist in files.
func countFileVolumes(pod *v1.Pod) (n int) {
	var used map[string]bool
	for i := range pod.Spec.Volumes {
		vol := &pod.Spec.Volumes[i]
		if !volume.KindOf(vol).OfFiles() {
			continue
		}
		if used == nil {
			used = mounted(pod)
		}
		if used[vol.Name] {
			n++
		}
	}
	return n
}

// sooner returns the earlier time; zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
