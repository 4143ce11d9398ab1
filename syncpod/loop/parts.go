package loop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/oom"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/internal/gc"
)

// Admission decides which new pods may run on the node: by what is left of its
// resources, for example. Pods are asked for one at a time, of those that came
// together the one that was created first coming first.
//
// It is asked once for each pod. A pod that ran before the agent was started is
// not asked for, nor is one that is over or about to be deleted. A check that has
// to hold for as long as a pod runs is one of syncpod.Extensions.Admit.
type Admission interface {
	// Admit returns nil for a pod that may run, beside those that were admitted and
	// are not over. A pod that may not is reported as Failed with the reason and the
	// message, and never started. Pods must not be written to. New pods wait for
	// Admit, so that it should not wait for anything.
	Admit(pod *v1.Pod, beside []*v1.Pod) *syncpod.Rejection
}

// AdmissionFunc is a function that is an [Admission].
type AdmissionFunc func(pod *v1.Pod, beside []*v1.Pod) *syncpod.Rejection

// Admit calls f.
func (f AdmissionFunc) Admit(pod *v1.Pod, beside []*v1.Pod) *syncpod.Rejection { return f(pod, beside) }

// Probes runs the probes of pods. Its methods are called concurrently, and must
// return soon.
type Probes interface {
	// ProbeResults are the newest results, which the work on the pod heeds.
	syncpod.Probes
	// Run probes until ctx ends, and returns when nothing is probed any more. It
	// calls changed for each pod one of whose results has changed.
	Run(ctx context.Context, changed func(pod types.UID)) error
	// Observe tells what a pod should be and is, before each work on it. While it is
	// ending only its readiness is of interest: no probe stops its containers any
	// more, while services need to know which of them still serve (kubernetes
	// #107473, #140882).
	Observe(pod *v1.Pod, status *runtime.PodStatus, ending bool)
	// Forget tells that nothing of a pod runs or will run.
	Forget(pod types.UID)
}

// noProbes stands for missing [Probes].
type noProbes struct{}

func (noProbes) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults { return nil }
func (noProbes) Run(context.Context, func(types.UID)) error                          { return nil }
func (noProbes) Observe(*v1.Pod, *runtime.PodStatus, bool)                           {}
func (noProbes) Forget(types.UID)                                                    {}

// A Collector removes what pods have left in the runtime or on the node. It is
// called every Config.CollectInterval, in a goroutine of its own and never twice at a time,
// and not while the runtime is away. An error is logged.
type Collector interface {
	Collect(ctx context.Context, lives PodStates) error
}

// An ImageCollector removes images that nobody needs from the node. It is called
// every Config.ImageInterval, in a goroutine of its own and never twice at a time, and not
// while the runtime is away. An error is logged, and an event if there is a
// Config.NodeName. If it has a method RemoveUnused(context.Context) error, that is called,
// maybe beside Collect, before a pod is evicted for lack of room. An *image.Collector is one.
type ImageCollector interface {
	Collect(ctx context.Context) error
}

// An OOMWatcher tells which processes are killed because memory runs out. An *oom.Watcher
// does.
type OOMWatcher interface {
	// Run calls tell for each of them, one after the other, until ctx ends.
	Run(ctx context.Context, tell func(oom.Kill)) error
}

// PodStates tells a [Collector] what it may remove. A pod that is not known is taken to
// be gone only once all sources have said which pods should run.
type PodStates = gc.PodStates
