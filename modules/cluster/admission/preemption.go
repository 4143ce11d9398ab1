package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/podref"
)

// minPreemptionWait is how long a critical pod waits at least for the pods that it preempts.
const minPreemptionWait = 10 * time.Second

// A Preemption stops pods so that critical pods fit on the node, and makes the critical pods wait until those pods have
// stopped. It is the Preemption of an Admission, a loop.Part and a syncpod.Admitter: a node that preempts uses it as all
// three. Create it with NewPreemption. Its methods may be called concurrently.
type Preemption struct {
	config PreemptionConfig
	// wake has a value if queued has pods.
	wake chan struct{}

	mu sync.Mutex
	// queued are the pods that must stop, whose stop has not been requested yet.
	queued []preempted
	// stopping are the pods that have not stopped yet, queued ones included.
	stopping map[types.UID]bool
	// waiting are critical pods that have not run since pods were stopped for them.
	waiting map[types.UID]bool
}

// PreemptionConfig configures a Preemption.
type PreemptionConfig struct {
	// Preempted is called for each pod that has stopped for a critical one, with the first resource that was missing. It must
	// not block. Default: nothing is called.
	Preempted func(missing v1.ResourceName)
	// Log receives a line for each pod that is stopped, and for each that does not stop in time. Default: no log.
	Log logr.Logger
}

// A preempted is a pod that must stop, and the first resource that is missing.
type preempted struct {
	pod     *v1.Pod
	missing v1.ResourceName
}

var (
	_ loop.Part        = (*Preemption)(nil)
	_ syncpod.Admitter = (*Preemption)(nil)
)

// NewPreemption returns a Preemption that stops no pods before Run is called.
func NewPreemption(c PreemptionConfig) *Preemption {
	if c.Preempted == nil {
		c.Preempted = func(v1.ResourceName) {}
	}
	return &Preemption{config: c, wake: make(chan struct{}, 1), stopping: map[types.UID]bool{}, waiting: map[types.UID]bool{}}
}

// stop queues the pods for Run, which stops them. The critical pod waits until no pod is stopping for a critical pod.
func (p *Preemption) stop(critical *v1.Pod, missing v1.ResourceName, pods []*v1.Pod) {
	p.mu.Lock()
	for _, pod := range pods {
		p.queued = append(p.queued, preempted{pod, missing})
		p.stopping[pod.UID] = true
		podref.Log(p.config.Log, pod).Info("pod preempted", "for", podref.Name(critical))
	}
	if len(p.stopping) > 0 {
		p.waiting[critical.UID] = true
	}
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // Run stops all queued pods
	}
}

// isStopping reports whether the pod is being stopped for a critical pod.
func (p *Preemption) isStopping(pod *v1.Pod) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopping[pod.UID]
}

// AdmitPod makes a critical pod wait until the pods that it preempts have stopped.
func (p *Preemption) AdmitPod(_ context.Context, pod *v1.Pod) *syncpod.Rejection {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waiting[pod.UID] {
		return nil
	}
	return &syncpod.Rejection{Reason: eviction.PreemptionReason, Message: fmt.Sprintf("waiting until pods have stopped that this critical pod preempts: %d", len(p.stopping))}
}

// Run stops pods until ctx ends.
func (p *Preemption) Run(ctx context.Context, host loop.Host) error {
	var stops sync.WaitGroup
	defer stops.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		}
		for _, preempted := range p.takeQueued() {
			host.Events().Eventf(podref.Pod(preempted.pod), v1.EventTypeWarning, eviction.PreemptionReason, eviction.PreemptionMessage)
			stops.Go(func() { p.carryOut(ctx, host, preempted) })
		}
	}
}

func (p *Preemption) takeQueued() []preempted {
	p.mu.Lock()
	defer p.mu.Unlock()
	queued := p.queued
	p.queued = nil
	return queued
}

// carryOut stops a pod with the pod's own grace period. Critical pods wait for 1.5 times that period at most, or for
// minPreemptionWait if that is longer, so that a pod that does not stop cannot prevent them from running.
func (p *Preemption) carryOut(ctx context.Context, host loop.Host, preempted preempted) {
	pod := preempted.pod
	wait := minPreemptionWait
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		wait = max(wait, time.Duration(min(*grace, maxGraceSeconds))*time.Second*3/2)
	}
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := host.KillPod(limited, pod.UID, podworkers.StopRequest{Evict: true, Report: &podworkers.StopReport{
		Reason: eviction.PreemptionReason, Message: eviction.PreemptionMessage, Disruption: true,
	}})
	if ctx.Err() != nil {
		return // the next agent decides again
	}
	if err == nil {
		p.config.Preempted(preempted.missing)
	} else {
		podref.Log(p.config.Log, pod).Error(err, "A preempted pod has not stopped; critical pods no longer wait for it")
	}
	for _, uid := range p.stopped(pod.UID) {
		host.PodChanged(uid)
	}
}

// maxGraceSeconds keeps the wait for a pod below the largest Duration.
const maxGraceSeconds = 365 * 24 * 60 * 60

// stopped records that a pod no longer delays critical pods, and returns the critical pods that can start.
func (p *Preemption) stopped(uid types.UID) (ready []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.stopping, uid)
	if len(p.stopping) > 0 {
		return nil
	}
	for uid := range p.waiting {
		ready = append(ready, uid)
	}
	clear(p.waiting)
	return ready
}
