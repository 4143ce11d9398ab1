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

// Admission decides which new pods may run on the node, for example by the remaining resources. It
// is called for one pod at a time, in the order of creation of pods that arrived together.
//
// It is called once for each pod. It is not called for a pod that already ran before the agent was
// started, nor for one that has finished or is deleted. A check that must hold while a pod runs is
// an Admitter in syncpod.Extensions.Admit.
type Admission interface {
	// Admit returns nil if the pod may run next to the given active pods, which were admitted and
	// have not finished. A rejected pod is reported as Failed with the reason and the message, and
	// never started. Pods must not be modified. New pods wait for Admit, so it should not block.
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
	// Observe passes the desired and the actual state of a pod, before each sync. While the pod is
	// ending, only readiness matters: no probe stops its containers any more, while services need
	// to know which of them still serve (kubernetes #107473, #140882).
	Observe(pod *v1.Pod, status *runtime.PodStatus, ending bool)
	// Forget is called when nothing of a pod runs or will run.
	Forget(pod types.UID)
}

// noProbes stands for missing [Probes].
type noProbes struct{}

func (noProbes) ProbeResults(types.UID) map[runtime.ContainerID]actions.ProbeResults { return nil }
func (noProbes) Run(context.Context, func(types.UID)) error                          { return nil }
func (noProbes) Observe(*v1.Pod, *runtime.PodStatus, bool)                           {}
func (noProbes) Forget(types.UID)                                                    {}

// A Collector removes what pods have left in the runtime or on the node. It is called every
// Config.CollectInterval, in a goroutine of its own without overlap, and not while the runtime is
// unavailable. Errors are logged.
type Collector interface {
	Collect(ctx context.Context, lives PodStates) error
}

// An ImageCollector removes unused images from the node. It is called every Config.ImageInterval,
// in a goroutine of its own without overlap, and not while the runtime is unavailable. Errors are
// logged, and reported as an event if there is a Config.NodeName. If it has a method
// RemoveUnused(context.Context) error, that is called before a pod is evicted for lack of disk
// space, possibly concurrently with Collect. An *image.Collector implements it.
type ImageCollector interface {
	Collect(ctx context.Context) error
}

// An OOMWatcher reports processes that are killed because memory runs out. An *oom.Watcher
// implements it.
type OOMWatcher interface {
	// Run calls report for each of them, one after the other, until ctx ends.
	Run(ctx context.Context, report func(oom.Kill)) error
}

// PodStates reports to a [Collector] what it may remove. An unknown pod counts as gone only once
// all sources have delivered.
type PodStates = gc.PodStates
