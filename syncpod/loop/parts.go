package loop

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/syncpod"
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
	Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection
}

// AdmissionFunc is a function that is an [Admission].
type AdmissionFunc func(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection

// Admit calls f.
func (f AdmissionFunc) Admit(pod *v1.Pod, activePods []*v1.Pod) *syncpod.Rejection {
	return f(pod, activePods)
}

// A Part runs alongside the pods of a Loop: it rotates logs, for example, or evicts pods. Package
// [github.com/podsync/podsync/syncpod/agent] has the parts of a kubelet.
type Part interface {
	// Run runs until ctx ends. An error that it returns before then ends the Loop.
	Run(ctx context.Context, host Host) error
}

// A Host is the Loop as its parts see it. Its methods may be called concurrently.
type Host interface {
	// RuntimeShouldBeRemoved reports whether a pod's dead containers and sandboxes may be removed, and
	// ContentShouldBeRemoved whether its volumes and logs may be removed. For an unknown pod both report
	// true once all sources have delivered their pods.
	RuntimeShouldBeRemoved(pod types.UID) bool
	ContentShouldBeRemoved(pod types.UID) bool
	// Pods returns the pods as Loop.Pods does.
	Pods() []Pod
	// State returns a pod's state in the workers.
	State(pod types.UID) podworkers.PodState
	// KillPod stops a pod as Loop.KillPod does.
	KillPod(ctx context.Context, pod types.UID, stop podworkers.StopRequest) error
	// PodChanged requests a sync of a pod.
	PodChanged(pod types.UID)
	// Available returns nil, or why the runtime is unavailable.
	Available() error
	// Events records events. They wait for the recorder of the Config; without one they are
	// dropped.
	Events() syncpod.EventRecorder
}
