package agent

import (
	"time"

	v1 "k8s.io/api/core/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/podworkers"
	podimage "github.com/podsync/podsync/runtime/image"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/probe"
)

// Observers observe an agent, for metrics, traces or a history. Any may be nil.
type Observers struct {
	Sync    syncpod.Observer
	Workers podworkers.Observer
	Watch   pleg.Observer
	Probes  probe.Observer
	Images  podimage.Observer
	Evicted func(eviction.Eviction)
}

// Observe adds observers. They are called after those that the Config already has.
func (c *Config) Observe(o Observers) {
	c.Sync.Observer = add(c.Sync.Observer, o.Sync, func(all []syncpod.Observer) syncpod.Observer { return syncObservers(all) })
	c.Workers.Observer = add(c.Workers.Observer, o.Workers, func(all []podworkers.Observer) podworkers.Observer { return workObservers(all) })
	c.Watch.Observer = add(c.Watch.Observer, o.Watch, func(all []pleg.Observer) pleg.Observer { return watchObservers(all) })
	c.ProbeObserver = add(c.ProbeObserver, o.Probes, func(all []probe.Observer) probe.Observer { return probeObservers(all) })
	c.Images.Observer = add(c.Images.Observer, o.Images, func(all []podimage.Observer) podimage.Observer { return imageObservers(all) })
	if first := c.Evicted; first == nil {
		c.Evicted = o.Evicted
	} else if o.Evicted != nil {
		c.Evicted = func(e eviction.Eviction) {
			first(e)
			o.Evicted(e)
		}
	}
}

// add combines two observers into one. Either of them may be nil.
func add[O comparable](first, second O, both func([]O) O) O {
	var none O
	switch {
	case first == none:
		return second
	case second == none:
		return first
	}
	return both([]O{first, second})
}

type syncObservers []syncpod.Observer

func (all syncObservers) PlanMade(pod *v1.Pod, plan actions.Plan) {
	for _, o := range all {
		o.PlanMade(pod, plan)
	}
}

func (all syncObservers) PodRunning(pod *v1.Pod, took time.Duration) {
	for _, o := range all {
		o.PodRunning(pod, took)
	}
}

func (all syncObservers) SandboxCreated(pod *v1.Pod, took time.Duration, err error) {
	for _, o := range all {
		o.SandboxCreated(pod, took, err)
	}
}

func (all syncObservers) ContainerStarted(pod *v1.Pod, c actions.ContainerRef, took time.Duration, err error) {
	for _, o := range all {
		o.ContainerStarted(pod, c, took, err)
	}
}

func (all syncObservers) ContainerStopped(pod *v1.Pod, container string, took time.Duration, err error) {
	for _, o := range all {
		o.ContainerStopped(pod, container, took, err)
	}
}

func (all syncObservers) VolumeSetUp(pod *v1.Pod, volume *v1.Volume, took time.Duration, err error) {
	for _, o := range all {
		o.VolumeSetUp(pod, volume, took, err)
	}
}

func (all syncObservers) ImagePulled(pod *v1.Pod, c actions.ContainerRef, image string, took time.Duration, err error) {
	for _, o := range all {
		o.ImagePulled(pod, c, image, took, err)
	}
}

func (all syncObservers) HookEnded(pod *v1.Pod, container string, hook syncpod.Hook, took time.Duration, err error) {
	for _, o := range all {
		o.HookEnded(pod, container, hook, took, err)
	}
}

func (all syncObservers) EventDropped(object k8sruntime.Object, reason string) {
	for _, o := range all {
		o.EventDropped(object, reason)
	}
}

type workObservers []podworkers.Observer

func (all workObservers) PodSeen(uid types.UID, at time.Time) {
	for _, o := range all {
		o.PodSeen(uid, at)
	}
}

func (all workObservers) PhaseChanged(uid types.UID, from, to podworkers.Phase) {
	for _, o := range all {
		o.PhaseChanged(uid, from, to)
	}
}

func (all workObservers) SyncStarted(w podworkers.Work) {
	for _, o := range all {
		o.SyncStarted(w)
	}
}

func (all workObservers) SyncEnded(w podworkers.Work, took time.Duration, err error) {
	for _, o := range all {
		o.SyncEnded(w, took, err)
	}
}

func (all workObservers) SyncAbandoned(w podworkers.Work) {
	for _, o := range all {
		o.SyncAbandoned(w)
	}
}

type watchObservers []pleg.Observer

func (all watchObservers) Listed(pods int, took time.Duration, err error) {
	for _, o := range all {
		o.Listed(pods, took, err)
	}
}

func (all watchObservers) Inspected(uid types.UID, took time.Duration, err error) {
	for _, o := range all {
		o.Inspected(uid, took, err)
	}
}

func (all watchObservers) Streaming(on bool) {
	for _, o := range all {
		o.Streaming(on)
	}
}

type probeObservers []probe.Observer

func (all probeObservers) Checked(c probe.Check) {
	for _, o := range all {
		o.Checked(c)
	}
}

func (all probeObservers) PodForgotten(uid types.UID) {
	for _, o := range all {
		o.PodForgotten(uid)
	}
}

type imageObservers []podimage.Observer

func (all imageObservers) PullStarted(p podimage.Pull) {
	for _, o := range all {
		o.PullStarted(p)
	}
}

func (all imageObservers) PullProgress(p podimage.Pull, took time.Duration) {
	for _, o := range all {
		o.PullProgress(p, took)
	}
}

func (all imageObservers) PullFinished(p podimage.Pull, took time.Duration, err error) {
	for _, o := range all {
		o.PullFinished(p, took, err)
	}
}
