package prometheus

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/syncpod"
)

// starts counts the sandboxes and containers that the agent starts. terminations counts the containers that end.
type starts struct {
	pods, podErrors, userPods, userPodErrors client.Counter
	containers, containerErrors              *client.CounterVec
	terminations                             *client.CounterVec
}

func newStarts() starts {
	counter := func(name, help string) client.Counter {
		return client.NewCounter(client.CounterOpts{Subsystem: subsystem, Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *client.CounterVec {
		return client.NewCounterVec(client.CounterOpts{Subsystem: subsystem, Name: name, Help: help}, labels)
	}
	return starts{
		pods:            counter("started_pods_total", "Sandboxes of pods that were created, also in vain."),
		podErrors:       counter("started_pods_errors_total", "Sandboxes of pods that could not be created."),
		userPods:        counter("started_user_namespaced_pods_total", "Sandboxes of pods with user namespaces that were created, also in vain."),
		userPodErrors:   counter("started_user_namespaced_pods_errors_total", "Sandboxes of pods with user namespaces that could not be created."),
		containers:      vector("started_containers_total", "Containers that were started, also in vain.", "container_type"),
		containerErrors: vector("started_containers_errors_total", "Containers that could not be started, by the reason.", "container_type", "code"),
		terminations:    vector("terminated_containers_total", "Containers that have terminated.", "container_type", "exit_code", "reason"),
	}
}

func (s *starts) all() []client.Collector {
	return []client.Collector{s.pods, s.podErrors, s.userPods, s.userPodErrors, s.containers, s.containerErrors, s.terminations}
}

// SandboxCreated counts a sandbox's creation.
func (o podObserver) SandboxCreated(pod *v1.Pod, _ time.Duration, err error) {
	s := &o.metrics.starts
	counters := [][2]client.Counter{{s.pods, s.podErrors}}
	if pod.Spec.HostUsers != nil && !*pod.Spec.HostUsers {
		counters = append(counters, [2]client.Counter{s.userPods, s.userPodErrors})
	}
	for _, c := range counters {
		c[0].Inc()
		if err != nil {
			c[1].Inc()
		}
	}
}

// ContainerStarted counts a container's start.
func (o podObserver) ContainerStarted(_ *v1.Pod, c actions.ContainerRef, _ time.Duration, err error) {
	kind := map[actions.ContainerKind]string{actions.InitContainer: initContainer, actions.EphemeralContainer: ephemeralContainer}[c.Kind]
	if kind == "" {
		kind = regularContainer
	}
	o.metrics.starts.containers.WithLabelValues(kind).Inc()
	if err == nil {
		return
	}
	code := "unknown"
	if failed := (*syncpod.StepError)(nil); errors.As(err, &failed) {
		code = string(failed.Reason)
	}
	o.metrics.starts.containerErrors.WithLabelValues(kind, code).Inc()
}

// The values of the label container_type, as in a kubelet.
const (
	regularContainer   = "container"
	initContainer      = "init_container"
	ephemeralContainer = "ephemeral_container"
)

// A terminationSink counts the containers that have terminated since their pod's last status, and passes each status to
// the next sink.
type terminationSink struct {
	next  syncpod.StatusSink // nil if there is no sink
	count *client.CounterVec

	mu sync.Mutex
	// counted has, for each pod, the IDs of the containers that had terminated in its last status.
	counted map[types.UID]map[string]bool
}

// SetPodStatus counts the containers that have terminated since the last status. If the pod came from its source with
// terminated containers in its status, an earlier agent has counted them.
func (s *terminationSink) SetPodStatus(ctx context.Context, pod *v1.Pod, status v1.PodStatus) error {
	s.mu.Lock()
	before, known := s.counted[pod.UID]
	if !known {
		before = map[string]bool{}
		eachTermination(&pod.Status, func(_ string, t *v1.ContainerStateTerminated) { before[t.ContainerID] = true })
	}
	now := map[string]bool{}
	eachTermination(&status, func(kind string, t *v1.ContainerStateTerminated) {
		if !before[t.ContainerID] && !now[t.ContainerID] {
			s.count.WithLabelValues(kind, strconv.Itoa(int(t.ExitCode)), strings.ToValidUTF8(t.Reason, "\uFFFD")).Inc()
		}
		now[t.ContainerID] = true
	})
	s.counted[pod.UID] = now
	s.mu.Unlock()
	if s.next == nil {
		return nil
	}
	return s.next.SetPodStatus(ctx, pod, status)
}

// forget drops a pod that the agent has removed.
func (s *terminationSink) forget(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.counted, pod)
}

// eachTermination calls f for each container that is terminated in the status. A container without an ID never ran.
func eachTermination(status *v1.PodStatus, f func(kind string, t *v1.ContainerStateTerminated)) {
	for _, list := range []struct {
		kind       string
		containers []v1.ContainerStatus
	}{{regularContainer, status.ContainerStatuses}, {initContainer, status.InitContainerStatuses}, {ephemeralContainer, status.EphemeralContainerStatuses}} {
		for i := range list.containers {
			c := &list.containers[i]
			for _, t := range []*v1.ContainerStateTerminated{c.LastTerminationState.Terminated, c.State.Terminated} {
				if t != nil && t.ContainerID != "" {
					f(list.kind, t)
				}
			}
		}
	}
}
