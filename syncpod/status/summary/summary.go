// Package summary summarizes a pod in one line, with the words that kubectl get pods uses. A program imports it to list
// pods for people.
//
// The package is pure.
package summary

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// A Summary is a pod's line in kubectl get pods.
type Summary struct {
	Namespace, Name string
	// Status is kubectl's STATUS: the pod's phase, or a more exact word such as CrashLoopBackOff or Init:1/3.
	Status string
	// Ready is the number of ready containers, and Containers the number of all, with sidecars.
	Ready, Containers int
	Restarts          int32
	// LastEnd is the time of a restarted container's last exit. Killed means that the kernel ended it for lack of memory.
	LastEnd time.Time
	Killed  bool
	// Began is the time when the pod was created, or accepted by the agent.
	Began time.Time
}

// Of summarizes a pod. It counts containers as kubectl does: sidecars count, other init containers only while the pod
// initializes.
func Of(pod *v1.Pod) Summary {
	if pod == nil {
		return Summary{}
	}
	r := Summary{Namespace: pod.Namespace, Name: pod.Name, Containers: len(pod.Spec.Containers), Began: began(pod)}
	sidecars := sidecarsOf(pod)
	r.Containers += len(sidecars)
	over := initializing(pod, sidecars) == "" || isTrue(pod, v1.PodInitialized)
	for _, s := range pod.Status.InitContainerStatuses {
		if !over || sidecars[s.Name] {
			r.countRestarts(s)
		}
		if sidecars[s.Name] && isStarted(s) && s.Ready {
			r.Ready++
		}
	}
	if over {
		for _, s := range pod.Status.ContainerStatuses {
			r.countRestarts(s)
			if s.State.Running != nil && s.Ready {
				r.Ready++
			}
		}
	}
	r.Status = statusOf(pod, sidecars, over)
	return r
}

// Readiness returns kubectl's READY, such as 1/2.
func (r Summary) Readiness() string { return fmt.Sprintf("%d/%d", r.Ready, r.Containers) }

func (r *Summary) countRestarts(s v1.ContainerStatus) {
	r.Restarts += s.RestartCount
	if end := s.LastTerminationState.Terminated; end != nil && end.FinishedAt.After(r.LastEnd) {
		r.LastEnd, r.Killed = end.FinishedAt.Time, end.Reason == "OOMKilled"
	}
}

// statusOf returns the word in kubectl's STATUS column: the state of the first unfinished init container, or of the
// first container that is not running.
func statusOf(pod *v1.Pod, sidecars map[string]bool, initialized bool) string {
	if pod.DeletionTimestamp != nil && !runtime.IsTerminal(pod.Status.Phase) {
		return "Terminating"
	}
	word := initializing(pod, sidecars)
	if initialized {
		word = containersWord(pod, cmp.Or(word, phaseWord(pod)))
	}
	return word
}

// phaseWord returns a pod's phase, or the reason for it. A pod without a status is Pending, as in
// an API server.
func phaseWord(pod *v1.Pod) string {
	return cmp.Or(pod.Status.Reason, string(pod.Status.Phase), string(v1.PodPending))
}

func containersWord(pod *v1.Pod, word string) string {
	running := false
	for _, s := range slices.Backward(pod.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			word = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			word = endWord(s.State.Terminated)
		case s.State.Running != nil && s.Ready:
			running = true
		}
	}
	if word != "Completed" || !running {
		return word
	}
	if isTrue(pod, v1.PodReady) {
		return "Running"
	}
	return "NotReady"
}

// initializing returns the word for the first unfinished init container, empty if there is none.
func initializing(pod *v1.Pod, sidecars map[string]bool) string {
	for i, s := range pod.Status.InitContainerStatuses {
		end, wait := s.State.Terminated, s.State.Waiting
		switch {
		case end != nil && end.ExitCode == 0:
		case sidecars[s.Name] && isStarted(s):
		case end != nil:
			return "Init:" + endWord(end)
		case wait != nil && wait.Reason != "" && wait.Reason != "PodInitializing":
			return "Init:" + wait.Reason
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
	}
	return ""
}

func endWord(end *v1.ContainerStateTerminated) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Signal != 0:
		return fmt.Sprintf("Signal:%d", end.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", end.ExitCode)
}

func sidecarsOf(pod *v1.Pod) map[string]bool {
	names := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if runtime.IsSidecar(&c) {
			names[c.Name] = true
		}
	}
	return names
}

func isStarted(s v1.ContainerStatus) bool { return s.Started != nil && *s.Started }

func isTrue(pod *v1.Pod, condition v1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == condition && c.Status == v1.ConditionTrue
	})
}

// began returns a pod's creation time. A pod from a folder has no creation time: began then returns the time when an
// agent first accepted it.
func began(pod *v1.Pod) time.Time {
	if !pod.CreationTimestamp.IsZero() {
		return pod.CreationTimestamp.Time
	}
	if pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	seen, _ := time.Parse(time.RFC3339Nano, pod.Annotations[runtime.AnnotationConfigSeen])
	return seen
}
