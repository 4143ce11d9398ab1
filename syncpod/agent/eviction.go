package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	pressure "github.com/podsync/podsync/syncpod/eviction/manager"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/podref"
)

// evictions measures the node, and evicts pods when the node is under pressure.
type evictions struct {
	*pressure.Manager
	evictor  *evictor
	interval time.Duration
}

// makeEvictions returns nil if the agent evicts no pods.
func (c *Config) makeEvictions(reader *stats.Reader, containers *containerGC, images *imageGC) (*evictions, error) {
	if c.NoEviction {
		return nil, nil
	}
	measured := c.Stats
	if measured == nil {
		measured = reader
	}
	e := &evictor{cache: c.Cache, containers: containers, images: images, node: nodeEvents(c.NodeName)}
	config := pressure.Config{Policy: c.EvictionPolicy, Agent: e, Stats: measured, Evicted: c.Evicted, Log: c.Log, LogsRoot: c.logsRoot()}
	if c.Root != "" {
		config.State = filepath.Join(c.Root, "evictions")
	}
	if c.Sync.Root != "" {
		config.PodsRoot = filepath.Join(c.Sync.Root, "pods")
	}
	manager, err := pressure.New(config)
	if err != nil {
		return nil, fmt.Errorf("agent: Config.EvictionPolicy: %w", err)
	}
	c.Admission = underPressure{manager, c.Admission}
	return &evictions{manager, e, eviction.Interval(c.EvictionPolicy)}, nil
}

// Run measures the node at intervals until ctx ends.
func (e *evictions) Run(ctx context.Context, host loop.Host) error {
	e.evictor.host = host
	defer e.Wait()
	e.Synchronize(ctx)
	every(ctx, host, e.interval, func() { e.Synchronize(ctx) })
	return nil
}

// underPressure rejects new pods while the node is under pressure. For all other pods it calls the next
// Admission.
type underPressure struct {
	manager *pressure.Manager
	next    loop.Admission // nil if all pods are admitted
}

func (a underPressure) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	if message, ok := eviction.Admit(pod, a.manager.Last().Conditions); !ok {
		return &syncpod.Rejection{Reason: eviction.Reason, Message: message}
	}
	if a.next == nil {
		return nil
	}
	return a.next.Admit(pod, activePods)
}

// An evictor gives a manager.Manager access to the agent's pods, containers and images.
type evictor struct {
	cache      *runtime.Cache
	containers *containerGC // nil if dead containers are kept
	images     *imageGC     // nil if images are kept
	node       nodeEvents
	host       loop.Host // set by Run
}

var _ pressure.Agent = (*evictor)(nil)

// Running returns the pods that may use the node. They include a pod that is terminating or has a terminal
// phase while one of its containers may run: it uses the node during its grace period, which its author
// chooses.
func (e *evictor) Running() []pressure.Pod {
	var list []pressure.Pod
	for _, p := range e.host.Pods() {
		uid := p.Pod.UID
		state, status := e.host.State(uid), statusOf(e.cache, uid)
		if !state.Known || !state.MayHaveRunningContainers || status.Empty() {
			continue
		}
		ends := runtime.IsTerminal(p.Status.Phase) || p.Phase.HasStopped()
		if (state.TerminationRequested || ends) && !slices.ContainsFunc(status.Containers, alive) {
			continue
		}
		list = append(list, pressure.Pod{Pod: p.Pod, Status: status})
	}
	return list
}

func alive(c runtime.ContainerStatus) bool { return c.Live() }

// statusOf returns a pod's last status in the runtime, nil if it is unknown.
func statusOf(cache *runtime.Cache, uid types.UID) *runtime.PodStatus {
	status, err := cache.Get(uid)
	if err != nil {
		return nil
	}
	return status
}

func (e *evictor) Find(uid types.UID) (known *v1.Pod, unwanted bool) {
	for _, p := range e.host.Pods() {
		if p.Pod.UID == uid && e.host.State(uid).Known {
			return p.Pod, false
		}
	}
	return nil, e.host.ContentShouldBeRemoved(uid)
}

func (e *evictor) Evict(ctx context.Context, evicted eviction.Eviction) error {
	return e.host.KillPod(ctx, evicted.Pod.UID, podworkers.StopRequest{
		Evict: true, GracePeriodSeconds: &evicted.GraceSeconds,
		Report: &podworkers.StopReport{Reason: eviction.Reason, Message: evicted.Message, Disruption: evicted.Disruption},
	})
}

func (e *evictor) CleanedUp(uid types.UID) bool { return e.host.State(uid).ShouldBeFinished }

func (e *evictor) Reclaim(ctx context.Context, what eviction.Reclaim) error {
	switch {
	case what == eviction.UnusedImages && e.images != nil:
		return e.images.collector.RemoveUnused(ctx)
	case what != eviction.UnusedImages && e.containers != nil:
		return e.containers.collect(ctx, e.host)
	}
	return nil
}

func (e *evictor) Warn(about *v1.Pod, reason, message string, annotations map[string]string) {
	if about == nil {
		e.node.warn(e.host.Events(), reason, message)
		return
	}
	e.host.Events().AnnotatedEventf(podref.Pod(about), annotations, v1.EventTypeWarning, reason, "%s", message)
}
