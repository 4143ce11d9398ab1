package loop

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/stats"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/eviction"
	"github.com/podsync/podsync/syncpod/internal/pressure"
)

// makeStats makes the Stats of an EvictionPolicy.
func (c *Config) makeStats() error {
	if c.EvictionPolicy == nil || c.Stats != nil {
		return nil
	}
	if c.Client == nil {
		return errors.New("loop: Config.EvictionPolicy needs a Client or Stats")
	}
	reader, err := stats.New(stats.Config{Runtime: c.Client, Dir: c.Root})
	if err != nil {
		return fmt.Errorf("loop: Config.Stats: %w", err)
	}
	c.Stats = reader
	return nil
}

// makeEvictor makes what looks after the node, if there is an EvictionPolicy.
func (l *Loop) makeEvictor() error {
	c := &l.config
	if c.EvictionPolicy == nil {
		return nil
	}
	config := pressure.Config{Policy: *c.EvictionPolicy, Agent: evictor{l.table, l.sources, l.collectors, l.KillPod}, Stats: c.Stats, Evicted: c.Evicted, Log: c.Log, LogsRoot: c.logsRoot()}
	if c.Root != "" {
		config.State = filepath.Join(c.Root, "evictions")
	}
	if c.Sync.Root != "" {
		config.PodsRoot = filepath.Join(c.Sync.Root, "pods")
	}
	manager, err := pressure.New(config)
	if err != nil {
		return fmt.Errorf("loop: Config.EvictionPolicy: %w", err)
	}
	l.pressure = manager
	l.reconciler.admission = underPressure{l, c.Admission}
	return nil
}

// relieve looks after the node until ctx ends.
func (l *Loop) relieve(ctx context.Context) {
	defer l.pressure.Wait()
	l.pressure.Look(ctx)
	l.collectors.every(ctx, l.config.EvictionPolicy.Every(), func() { l.pressure.Look(ctx) })
}

// Pressure returns the last decision of the EvictionPolicy: the conditions MemoryPressure,
// DiskPressure and PIDPressure, which resources are low, and why each pod is evicted or not.
// Without an EvictionPolicy, and before the first observation, it is the zero Decision.
func (l *Loop) Pressure() eviction.Decision {
	if l.pressure == nil {
		return eviction.Decision{}
	}
	return l.pressure.Last()
}

// underPressure refuses pods as long as the node is short of something, and asks the
// embedder for all others.
type underPressure struct {
	loop *Loop
	next Admission
}

func (a underPressure) Admit(pod *v1.Pod, beside []*v1.Pod) *syncpod.Rejection {
	if message, ok := eviction.Admit(pod, a.loop.Pressure().Conditions); !ok {
		return &syncpod.Rejection{Reason: eviction.Reason, Message: message}
	}
	if a.next == nil {
		return nil
	}
	return a.next.Admit(pod, beside)
}

// An evictor does what a pressure.Manager asks for.
type evictor struct {
	table      *podTable
	sources    *feeds
	collectors *collectors
	kill       func(context.Context, types.UID, podworkers.StopRequest) error
}

var _ pressure.Agent = evictor{}

// Running returns a pod that is terminating, or that has ended by its status, while a container of it may
// run: it uses the node for as long as its grace period lasts, which its author chooses.
func (e evictor) Running() []pressure.Pod {
	var list []pressure.Pod
	for _, pod := range e.table.all() {
		state, status := e.table.workers.State(pod.UID), e.table.lastStatus(pod.UID)
		if !state.MayHaveRunningContainers || status.Empty() {
			continue
		}
		if ended := e.table.states.get(pod.UID); (state.TerminationRequested || ended.ends()) && !slices.ContainsFunc(status.Containers, alive) {
			continue
		}
		list = append(list, pressure.Pod{Pod: pod, Status: status})
	}
	return list
}

func alive(c runtime.ContainerStatus) bool { return c.Live() }

func (e evictor) Find(uid types.UID) (known *v1.Pod, unwanted bool) {
	return e.table.find(uid), e.sources.unwanted(uid)
}

func (e evictor) Evict(ctx context.Context, evicted eviction.Eviction) error {
	return e.kill(ctx, evicted.Pod.UID, podworkers.StopRequest{
		Evict: true, GracePeriodSeconds: &evicted.GraceSeconds,
		Report: &podworkers.StopReport{Reason: eviction.Reason, Message: evicted.Message, Disruption: evicted.Disruption},
	})
}

func (e evictor) CleanedUp(uid types.UID) bool { return e.table.workers.State(uid).ShouldBeFinished }

func (e evictor) Reclaim(ctx context.Context, what eviction.Reclaim) error {
	if what == eviction.UnusedImages {
		if images, ok := e.collectors.config.ImageCollector.(interface{ RemoveUnused(context.Context) error }); ok {
			return images.RemoveUnused(ctx)
		}
		return nil
	}
	var errs []error
	for _, c := range e.collectors.config.Collectors {
		errs = append(errs, e.collectors.collectOnce(ctx, c))
	}
	return errors.Join(errs...)
}

func (e evictor) Warn(about *v1.Pod, reason, message string) {
	if about == nil {
		e.table.nodeEvent(reason, message)
		return
	}
	e.table.podEvent(about, reason, message)
}
