package syncpod

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/hook"
)

// preStopRequest returns the preStop handler that the spec asks for, or for a
// container that is not in a spec the one that it was created with.
func (k kill) preStopRequest() (req hook.Request, ok bool) {
	req = k.noted
	if k.spec != nil {
		req = hook.Request{Ports: k.spec.Ports}
		if k.spec.Lifecycle != nil {
			req.Handler = k.spec.Lifecycle.PreStop
		}
	}
	req.Container, req.ContainerID, req.PodIP = k.status.Name, k.status.ID.ID, podIP(k.pod, k.podIP)
	return req, req.Handler != nil
}

// podIP returns the address that a handler is sent to: the one that the runtime
// reports, or where it reports none that of the pod's status.
func podIP(pod *v1.Pod, observed string) string {
	if observed == "" && pod != nil {
		return pod.Status.PodIP
	}
	return observed
}

// findHandlers adds to containers that run and are in no spec the handlers that
// they were created with, as their annotations have them. A runtime that does
// not tell them does not keep a pod from being stopped.
func (s *stopper) findHandlers(ctx context.Context, p podKill, kills []kill) {
	wanted := map[string]*kill{}
	for i := range kills {
		if k := &kills[i]; k.spec == nil && k.status.State == runtime.ContainerRunning {
			wanted[k.status.ID.ID] = k
		}
	}
	if len(wanted) == 0 || !time.Now().Before(p.deadline) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, p.deadline)
	defer cancel()
	selector := map[string]string{runtime.LabelPodUID: string(p.status.UID)}
	maps.Copy(selector, s.config.Owner.Selector())
	resp, err := s.config.Deps.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		s.config.Log.Error(err, "preStop handlers of containers without a spec are skipped", "podUID", p.status.UID)
		return
	}
	for _, c := range resp.GetContainers() {
		if k := wanted[c.GetId()]; k != nil {
			k.noted = s.handlerOf(c)
		}
	}
}

// handlerOf reads the handler that a container was created with.
func (s *stopper) handlerOf(c *runtimeapi.Container) hook.Request {
	req, err := hook.PreStop(c.GetAnnotations())
	if err != nil {
		labels := c.GetLabels()
		s.config.Log.Error(err, "a preStop handler is skipped", "podUID", labels[runtime.LabelPodUID], "container", labels[runtime.LabelContainerName])
		return hook.Request{}
	}
	return req
}
