package main

import (
	"errors"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pods are followed from their start to their end. Late events of an earlier time are ignored.
func TestEventLog(t *testing.T) {
	since := time.Now()
	l := &eventLog{
		since: since, streams: true, ended: make(chan struct{}), exits: map[string]chan struct{}{},
		pods: map[string]string{}, started: map[string]time.Time{}, gone: map[string]time.Time{},
	}
	tell := func(what runtimeapi.ContainerEventType, id, pod, container string, after time.Duration) {
		event := &runtimeapi.ContainerEventResponse{ContainerId: id, ContainerEventType: what, CreatedAt: since.Add(after).UnixNano()}
		if pod != "" {
			event.PodSandboxStatus = &runtimeapi.PodSandboxStatus{Id: "sandbox-of-" + pod, Metadata: &runtimeapi.PodSandboxMetadata{Name: pod}}
		}
		if container != "" {
			event.ContainersStatuses = []*runtimeapi.ContainerStatus{{
				Id: id, Metadata: &runtimeapi.ContainerMetadata{Name: container}, StartedAt: since.Add(after).UnixNano(),
			}}
		}
		l.record(event)
	}
	tell(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, "c0", "r0-1-n1", "main", -time.Second) // of before
	tell(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, "c1", "r0-0-n1", "main", time.Second)
	tell(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, "c2", "r0-1-n1", "init0", time.Second)
	tell(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, "c3", "r1-0-n1", "main", time.Second)
	if got := l.running("r0-"); len(got) != 1 || !got["r0-0-n1"].Equal(since.Add(time.Second)) {
		t.Errorf("running: %v", got)
	}
	tell(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, "c1", "", "", 2*time.Second)
	if got := l.removed("r0-"); len(got) != 0 {
		t.Errorf("removed, with their sandboxes there: %v", got)
	}
	tell(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, "sandbox-of-r0-0-n1", "", "", 2*time.Second)
	if got := l.removed("r0-"); len(got) != 1 {
		t.Errorf("removed: %v, want one", got)
	}
	tell(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, "c2", "", "", 2*time.Second)
	tell(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, "c2", "", "", 2*time.Second)
	if err := errors.Join(l.exit(t.Context(), "c2"), l.check()); err != nil {
		t.Error(err)
	}
	close(l.ended)
	if err := l.check(); !errors.Is(err, errStreamEnded) {
		t.Errorf("after the end of the stream: %v", err)
	}
}
