package lifecycle

import (
	"context"
	"errors"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/runtime/cri"
	"github.com/podsync/podsync/syncpod/lifecycle/handler"
	"github.com/podsync/podsync/syncpod/memory"
	"github.com/podsync/podsync/syncpod/podref"
)

const (
	// preStopExtension is how long a preStop handler may run beyond the grace period, once, as
	// the API documents it. The container is stopped in these seconds.
	preStopExtension = minSeconds * time.Second
	// recordTime is the minimum rest of a grace period for which a handler's completion is
	// recorded: in less time no new agent starts and runs the handler again.
	recordTime = time.Second
)

// errProcessEnded cancels the handler for an instance that has exited: there is nothing left to prepare for the stop,
// and everything behind the handler waits for it (kubernetes #134338).
var errProcessEnded = errors.New("the container has exited")

// preStop runs the handler, once for each instance, and returns when it or the container's process has ended, or the
// deadline has passed. If the handler still runs at the deadline, it continues during the stop, for at most
// preStopExtension. The returned function cancels it, and returns when it has ended.
func (s *Stopper) preStop(ctx context.Context, k *kill) (end func()) {
	req, ok := k.preStopRequest()
	if !ok || k.Status.State != runtime.ContainerRunning {
		return func() {}
	}
	if !time.Now().Before(k.Deadline) || !k.Memory.Mark(k.Status.ID.ID, memory.PreStopRun) {
		return func() {}
	}
	var exited <-chan struct{}
	if exits, ok := k.Memory.(Exits); ok {
		exited = exits.Exited(k.Status.ID.ID)
	}
	running, processEnded := context.WithCancelCause(ctx)
	hooking, cancel := context.WithDeadline(running, k.Deadline.Add(preStopExtension))
	ended := make(chan struct{})
	go func() {
		s.runPreStop(ctx, hooking, k, req)
		close(ended)
	}()
	select {
	case <-ended:
	case <-exited:
		processEnded(errProcessEnded)
	case <-time.After(time.Until(k.Deadline)):
	}
	return func() {
		cancel()
		<-ended
		processEnded(nil)
	}
}

// runPreStop runs the handler until hooking ends, which ends with ctx. It reports a failure in an
// event, and otherwise ignores it.
func (s *Stopper) runPreStop(ctx, hooking context.Context, k *kill, req handler.Request) {
	began := time.Now()
	result, err := s.config.Hooks.Run(hooking, req)
	s.config.Observer.PreStopEnded(k.Pod, k.Status.Name, time.Since(began), err)
	if err != nil && ctx.Err() == nil && context.Cause(hooking) != errProcessEnded && !s.exited(hooking, k.Status.ID.ID) {
		s.eventf(k.about(), v1.EventTypeWarning, EventFailedPreStopHook, "PreStopHook failed")
	}
	if err == nil && result.HTTPFallback {
		s.eventf(podref.Pod(k.Pod), v1.EventTypeWarning, handler.EventHTTPFallback, handler.FallbackMessage, k.Status.Name)
	}
	// The runtime has the same deadline, and may report it before the context ends.
	if hooking.Err() != nil || errors.Is(cri.Classify(err), cri.ErrDeadline) {
		return
	}
	k.Memory.Mark(k.Status.ID.ID, memory.PreStopCompleted)
	if time.Until(k.Deadline) > recordTime {
		k.Memory.Record(ctx)
	}
}

// exited reports whether a container has exited. A handler that makes its container exit, as "nginx -s quit" does, ends
// with it and has not failed.
func (s *Stopper) exited(ctx context.Context, id string) bool {
	resp, err := s.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		Id: id, State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_EXITED},
	}})
	return err == nil && len(resp.GetContainers()) > 0
}

// preStopRequest returns the preStop handler for the spec. If the container is missing in the spec, it returns
// the handler with which the container was created.
func (k *kill) preStopRequest() (req handler.Request, ok bool) {
	req = k.created
	if k.Ref != nil {
		spec := k.Ref.Spec(k.Pod)
		req = handler.Request{Ports: spec.Ports}
		if spec.Lifecycle != nil {
			req.Handler = spec.Lifecycle.PreStop
		}
	}
	req.Container, req.ContainerID, req.PodIP = k.Status.Name, k.Status.ID.ID, handler.Address(k.Pod, k.IPs)
	req.HTTPFallback = true
	return req, req.Handler != nil
}

// findHandlers reads the handlers of running containers that are missing in the spec from
// these containers' annotations. If the runtime does not list them, the pod stops without
// these handlers.
func (s *Stopper) findHandlers(ctx context.Context, p Pod, kills []*kill) {
	wanted := map[string]*kill{}
	for _, k := range kills {
		if k.Ref == nil && k.Status.State == runtime.ContainerRunning {
			wanted[k.Status.ID.ID] = k
		}
	}
	if len(wanted) == 0 || !time.Now().Before(p.Deadline) {
		return
	}
	ctx, cancel := context.WithDeadline(ctx, p.Deadline)
	defer cancel()
	selector := map[string]string{runtime.LabelPodUID: string(p.Status.UID)}
	maps.Copy(selector, s.config.Owner.Selector())
	resp, err := s.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		s.config.Log.Error(err, "preStop handlers of containers without a spec are skipped", "podUID", p.Status.UID)
		return
	}
	for _, c := range resp.GetContainers() {
		if k := wanted[c.GetId()]; k != nil {
			k.created = s.handlerOf(c)
		}
	}
}

// handlerOf reads the preStop handler with which a container was created.
func (s *Stopper) handlerOf(c *runtimeapi.Container) handler.Request {
	req, err := handler.PreStop(c.GetAnnotations())
	if err != nil {
		labels := c.GetLabels()
		s.config.Log.Error(err, "a preStop handler is skipped", "podUID", labels[runtime.LabelPodUID], "container", labels[runtime.LabelContainerName])
		return handler.Request{}
	}
	return req
}
