package prometheus

import (
	"context"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
)

// cgroups wraps the Cgroups of an agent, and measures each call's duration.
type cgroups struct {
	syncpod.Cgroups
	durations *client.HistogramVec

	mu   sync.Mutex
	made map[types.UID]bool
}

// EnsureCgroup counts as create until one call for the pod has succeeded, then as update.
func (c *cgroups) EnsureCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return c.ensure(ctx, pod, c.Cgroups.EnsureCgroup)
}

// RaiseCgroup counts like EnsureCgroup.
func (c *cgroups) RaiseCgroup(ctx context.Context, pod *v1.Pod) (string, error) {
	return c.ensure(ctx, pod, c.Cgroups.RaiseCgroup)
}

func (c *cgroups) ensure(ctx context.Context, pod *v1.Pod, do func(context.Context, *v1.Pod) (string, error)) (string, error) {
	began := time.Now()
	parent, err := do(ctx, pod)
	kind := c.note(pod.UID, err == nil)
	c.durations.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	return parent, err
}

// note returns the operation type of a call for a pod, and records that the pod has a cgroup.
func (c *cgroups) note(uid types.UID, made bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[uid] {
		return "update"
	}
	if made {
		c.made[uid] = true
	}
	return "create"
}

// RemovePod counts as destroy.
func (c *cgroups) RemovePod(ctx context.Context, uid types.UID) error {
	began := time.Now()
	err := c.Cgroups.RemovePod(ctx, uid)
	c.durations.WithLabelValues("destroy").Observe(time.Since(began).Seconds())
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, uid)
	return err
}
