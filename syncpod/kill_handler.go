package syncpod

import (
	"context"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/hook"
)

// handler is the preStop handler of a container, and what it is run with.
type handler struct {
	pod  *v1.Pod
	spec *v1.Container
}

// preStopOf returns the handler that the spec asks for, or for a container that
// is not in a spec the one that it was created with.
func (k kill) preStopOf() (handler, bool) {
	h := handler{k.pod, k.spec}
	if k.spec == nil {
		h = k.noted
	}
	ok := h.spec != nil && h.spec.Lifecycle != nil && h.spec.Lifecycle.PreStop != nil
	return h, ok
}

// findHandlers adds to containers that run and are in no spec the handlers that
// they were created with, as their annotations have them. A runtime that does
// not tell them does not keep a pod from being stopped.
func (s *Syncer) findHandlers(ctx context.Context, p podKill, kills []kill) {
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
	resp, err := s.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
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
func (s *Syncer) handlerOf(c *runtimeapi.Container) handler {
	labels := c.GetLabels()
	req, err := hook.PreStop(c.GetAnnotations())
	if err != nil {
		s.config.Log.Error(err, "a preStop handler is skipped", "podUID", labels[runtime.LabelPodUID], "container", labels[runtime.LabelContainerName])
		return handler{}
	}
	return handler{
		pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: labels[runtime.LabelPodName], Namespace: labels[runtime.LabelPodNamespace], UID: types.UID(labels[runtime.LabelPodUID]),
		}},
		spec: &v1.Container{
			Name: labels[runtime.LabelContainerName], Ports: req.Ports,
			Lifecycle: &v1.Lifecycle{PreStop: req.Handler},
		},
	}
}

// withIPs returns a pod as a handler needs it: with the addresses that the
// runtime reports, where no status has been filled in.
func withIPs(pod *v1.Pod, ips []string) *v1.Pod {
	if pod == nil || pod.Status.PodIP != "" || len(ips) == 0 {
		return pod
	}
	full := *pod
	full.Status.PodIP = ips[0]
	full.Status.PodIPs = nil
	for _, ip := range ips {
		full.Status.PodIPs = append(full.Status.PodIPs, v1.PodIP{IP: ip})
	}
	return &full
}
