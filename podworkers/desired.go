package podworkers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// NodePod is a pod that the runtime has.
type NodePod struct {
	RuntimePod
	// Running means that a container or a sandbox of the pod is alive, ObservedAt is when that was observed.
	Running    bool
	ObservedAt time.Time
}

// DesiredConfig configures a Desired. Its functions are called one at a time, and must not call the Desired.
type DesiredConfig struct {
	// Workers do the work. Required.
	Workers *Workers
	// OnNode returns the pods that the runtime has, and whether it has been listed: before that, a pod of an earlier agent
	// would look new. The caller calls Look when the first list has been read. Required.
	OnNode func() (pods []NodePod, listed bool)
	// Recorded returns the pods of which the agent has records. Default: none.
	Recorded func() []types.UID
	// WithStatus returns a pod with the status that was reported last, perhaps by an earlier agent, as WithReported of package
	// syncpod/status does. A pod that has finished does not run again. Default: the pod.
	WithStatus func(pod *v1.Pod) *v1.Pod
}

// Desired keeps the Workers of an agent with one source of pods up to date: what is added runs, what is changed is synced, and
// what is removed, or was never desired, is stopped and removed. In a kubelet these are HandlePodAdditions, HandlePodUpdates,
// HandlePodRemoves and HandlePodCleanups. Package syncpod/loop does the same for several sources, which may be incomplete or wrong.
// Create it with NewDesired.
//
// The caller passes pods with the API's defaults, and calls Changed when a pod has changed in the runtime, for example from a
// pleg.Watcher. Its Syncer calls Stopped when it has stopped a pod, and Forgotten when nothing of a pod is left. A pod that has finished
// and is not desired is removed: Desired looks when the Workers note the end, which is after SyncTerminatedPod has returned. Methods may be called concurrently, at any time.
type Desired struct {
	config DesiredConfig
	wake   chan struct{}

	mu      sync.Mutex
	desired map[types.UID]*v1.Pod
	working map[types.UID]working
	stopped map[types.UID]time.Time // when pods were stopped or removed
}

// working is a pod of the workers: as it was desired, nil if it is not any more, and as they have it. If a stopping pod is
// desired again, they have the new pod, which starts after the old one has been removed.
type working struct{ desired, pod *v1.Pod }

// NewDesired returns a Desired without pods. It starts nothing.
func NewDesired(c DesiredConfig) (*Desired, error) {
	switch {
	case c.Workers == nil:
		return nil, errors.New("podworkers: DesiredConfig.Workers is missing")
	case c.OnNode == nil:
		return nil, errors.New("podworkers: DesiredConfig.OnNode is missing")
	}
	if c.Recorded == nil {
		c.Recorded = func() []types.UID { return nil }
	}
	if c.WithStatus == nil {
		c.WithStatus = func(pod *v1.Pod) *v1.Pod { return pod }
	}
	d := &Desired{
		config: c, wake: make(chan struct{}, 1),
		desired: map[types.UID]*v1.Pod{}, working: map[types.UID]working{}, stopped: map[types.UID]time.Time{},
	}
	c.Workers.desired.Store(d)
	return d, nil
}

// Run passes the pods to the Workers, again after each change, until ctx ends.
func (d *Desired) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
			d.reconcile()
		}
	}
}

// Set replaces the pods that should run. They must not be modified afterwards.
func (d *Desired) Set(pods []*v1.Pod) {
	d.mu.Lock()
	d.desired = map[types.UID]*v1.Pod{}
	for _, pod := range pods {
		d.desired[pod.UID] = pod
	}
	d.mu.Unlock()
	d.Look()
}

// Look makes Run compare the pods again.
func (d *Desired) Look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Changed makes the Workers sync a pod that has changed in the runtime, or when the result of a probe has changed.
func (d *Desired) Changed(uid types.UID) {
	d.mu.Lock()
	if w := d.working[uid]; w.pod != nil {
		d.update(Sync, uid, w)
	}
	d.mu.Unlock()
	d.Look()
}

// Stopped records that the Syncer has stopped a pod. If a container or sandbox of the pod is observed to run later, Desired stops
// the pod again.
func (d *Desired) Stopped(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped[uid] = time.Now()
}

// Forgotten records that a pod has been removed from the node.
func (d *Desired) Forgotten(uid types.UID) {
	d.mu.Lock()
	d.stopped[uid] = time.Now()
	if d.working[uid].desired == nil { // otherwise a new pod with this UID follows
		delete(d.working, uid)
	}
	d.mu.Unlock()
	d.Look()
}

// reconcile compares the desired pods with those of the Workers and of the runtime. The Workers do the rest.
func (d *Desired) reconcile() {
	pods, listed := d.config.OnNode()
	if !listed {
		return
	}
	recorded := d.config.Recorded()
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid, w := range d.working {
		switch want := d.desired[uid]; {
		case w.desired == nil && want != nil: // the Workers keep the new pod until the old one is forgotten
			d.update(Create, uid, working{desired: want, pod: want})
		case w.desired == nil: // it stops
		case want == nil:
			d.update(Kill, uid, working{pod: Deleted(w.pod, time.Now())})
		case want != w.desired:
			d.update(Changed, uid, working{desired: want, pod: d.config.WithStatus(want)})
		}
	}
	for uid, pod := range d.desired {
		if d.working[uid].pod == nil && !d.config.Workers.State(uid).Known {
			d.update(Create, uid, working{desired: pod, pod: d.config.WithStatus(pod)})
		}
	}
	onNode := map[types.UID]bool{}
	for _, p := range pods {
		onNode[p.UID] = true
		state := d.config.Workers.State(p.UID)
		orphan := !state.Known && d.desired[p.UID] == nil
		switch {
		case !p.ObservedAt.After(d.stopped[p.UID]): // what was observed is over
		case p.Running && (orphan || state.Terminated):
			_ = d.config.Workers.KillRuntimePod(p.RuntimePod) // it fails only at the end of the agent
		case orphan:
			d.config.Workers.RemoveOrphan(p.RuntimePod)
		}
	}
	maps.DeleteFunc(d.stopped, func(uid types.UID, _ time.Time) bool { return !onNode[uid] && d.working[uid].pod == nil })
	d.config.Workers.SyncKnownPods(slices.Collect(maps.Keys(d.desired)))
	for _, uid := range recorded {
		if !onNode[uid] && d.desired[uid] == nil && d.working[uid].pod == nil && !d.config.Workers.State(uid).Known {
			d.config.Workers.RemoveOrphan(RuntimePod{UID: uid}) // only records are left
		}
	}
}

// update passes a pod to the Workers. It fails only at the end of the agent.
func (d *Desired) update(t UpdateType, uid types.UID, w working) {
	d.working[uid] = w
	_ = d.config.Workers.UpdatePod(Update{Type: t, Pod: w.pod})
}

// Deleted returns a pod that its source has removed. A static pod is marked as deleted at that time, so that its last status
// describes a pod that does not come back (kubernetes #116484).
func Deleted(pod *v1.Pod, at time.Time) *v1.Pod {
	if pod == nil || pod.DeletionTimestamp != nil || !runtime.IsStatic(pod) {
		return pod
	}
	copied := *pod // shares all but the mark
	copied.DeletionTimestamp = &metav1.Time{Time: at}
	return &copied
}
