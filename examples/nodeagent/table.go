package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// row is a pod as kubectl get pods prints it.
type row struct {
	Name, Ready, Status, Restarts, Age string
}

// rowOf makes the row of a pod. Without a time it has none in it: it is the same
// until the pod changes.
func rowOf(pod *v1.Pod, now time.Time) row {
	r := row{Name: pod.Name, Status: statusOf(pod)}
	if !now.IsZero() {
		r.Age = age(began(pod), now)
	}
	ready, restarts := 0, int32(0)
	var last time.Time
	count := func(s *v1.ContainerStatus) {
		restarts += s.RestartCount
		if end := s.LastTerminationState.Terminated; end != nil && end.FinishedAt.After(last) {
			last = end.FinishedAt.Time
		}
		if s.Ready && s.State.Running != nil {
			ready++
		}
	}
	total := len(pod.Spec.Containers)
	for i := range pod.Spec.InitContainers {
		if isSidecar(&pod.Spec.InitContainers[i]) {
			total++
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; isSidecar(specOf(pod.Spec.InitContainers, s.Name)) {
			count(s)
		} else {
			restarts += s.RestartCount
		}
	}
	for i := range pod.Status.ContainerStatuses {
		count(&pod.Status.ContainerStatuses[i])
	}
	r.Ready = fmt.Sprintf("%d/%d", ready, total)
	r.Restarts = fmt.Sprint(restarts)
	if restarts > 0 && !last.IsZero() && !now.IsZero() {
		r.Restarts = fmt.Sprintf("%d (%s ago)", restarts, age(last, now))
	}
	return r
}

// statusOf is one word on the pod: the first of its init containers that is not
// done with its work, or else what the last of its containers that has something
// to tell has.
func statusOf(pod *v1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return "Terminating"
	}
	word := string(pod.Status.Phase)
	if pod.Status.Reason != "" {
		word = pod.Status.Reason
	}
	if init := initializing(pod); init != "" {
		return init
	}
	running := false
	for _, s := range slices.Backward(pod.Status.ContainerStatuses) {
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			word = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			word = ended(s.State.Terminated)
		case s.State.Running != nil && s.Ready:
			running = true
		}
	}
	if word == "Completed" && running {
		return "Running"
	}
	return word
}

func initializing(pod *v1.Pod) string {
	for i, s := range pod.Status.InitContainerStatuses {
		end, wait := s.State.Terminated, s.State.Waiting
		switch {
		case end != nil && end.ExitCode == 0:
		case isSidecar(specOf(pod.Spec.InitContainers, s.Name)) && s.Started != nil && *s.Started:
		case end != nil:
			return "Init:" + ended(end)
		case wait != nil && wait.Reason != "" && wait.Reason != "PodInitializing":
			return "Init:" + wait.Reason
		default:
			return fmt.Sprintf("Init:%d/%d", i, len(pod.Spec.InitContainers))
		}
	}
	return ""
}

func ended(end *v1.ContainerStateTerminated) string {
	switch {
	case end.Reason != "":
		return end.Reason
	case end.Signal != 0:
		return fmt.Sprintf("Signal:%d", end.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", end.ExitCode)
}

func isSidecar(c *v1.Container) bool {
	return c != nil && c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways
}

func specOf(containers []v1.Container, name string) *v1.Container {
	for i := range containers {
		if containers[i].Name == name {
			return &containers[i]
		}
	}
	return nil
}

// began is when a pod came to the node: one that no API server knows was not
// created there.
func began(pod *v1.Pod) time.Time {
	if pod.CreationTimestamp.IsZero() && pod.Status.StartTime != nil {
		return pod.Status.StartTime.Time
	}
	return pod.CreationTimestamp.Time
}

func age(from, now time.Time) string {
	if from.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(from))
}

// writeTable writes pods under kubectl's headings and returns how many lines
// that were.
func writeTable(w io.Writer, pods []*v1.Pod, now time.Time) int {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "NAME\tREADY\tSTATUS\tRESTARTS\tAGE")
	for _, pod := range pods {
		r := rowOf(pod, now)
		fmt.Fprintln(t, strings.Join([]string{r.Name, r.Ready, r.Status, r.Restarts, r.Age}, "\t"))
	}
	t.Flush()
	return len(pods) + 1
}
