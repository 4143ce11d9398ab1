package server

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/loop"
)

// pod returns the pod that a path names. A pod that its source still wants takes precedence over a
// terminating one of the same name.
func (s *Server) pod(r *http.Request) (*loop.Pod, error) {
	namespace, name, uid := r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("uid")
	var found *loop.Pod
	for _, p := range s.config.Agent.Pods() {
		if p.Pod.Namespace != namespace || p.Pod.Name != name || uid != "" && string(p.Pod.UID) != uid {
			continue
		}
		if found == nil || found.Removed && !p.Removed {
			found = &p
		}
	}
	if found == nil {
		return nil, notFound("pod %q does not exist", namespace+"/"+name)
	}
	return found, nil
}

// container returns the pod's and the container's name in a path.
func (s *Server) container(r *http.Request) (*loop.Pod, string, error) {
	pod, err := s.pod(r)
	if err != nil {
		return nil, "", err
	}
	name := r.PathValue("container")
	if _, err := runtime.FindContainer(pod.Pod, name); err != nil {
		return nil, "", notFound("container %q not found in pod %q", name, pod.Pod.Name)
	}
	return pod, name, nil
}

// running returns the container instance that runs.
func (s *Server) running(r *http.Request) (*runtime.ContainerStatus, error) {
	pod, name, err := s.container(r)
	if err != nil {
		return nil, err
	}
	status, _ := s.config.Agent.Cache().Get(pod.Pod.UID)
	if c := status.Latest(name); c != nil && c.State == runtime.ContainerRunning {
		return c, nil
	}
	return nil, notFound("container %q of pod %q is not running", name, pod.Pod.Name)
}

// runningID and sandboxID find what a stream connects to.
func (s *Server) runningID(r *http.Request) (runtime.ContainerID, error) {
	c, err := s.running(r)
	if err != nil {
		return runtime.ContainerID{}, err
	}
	return c.ID, nil
}

func (s *Server) sandboxID(r *http.Request) (string, error) {
	pod, err := s.pod(r)
	if err != nil {
		return "", err
	}
	status, _ := s.config.Agent.Cache().Get(pod.Pod.UID)
	if sandbox := status.ActiveSandbox(); sandbox != nil {
		return sandbox.ID, nil
	}
	return "", notFound("pod %q is not running", pod.Pod.Name)
}

// instance returns the ID of the instance whose log is requested, from the pod's reported status:
// the running one, otherwise the last one; or with previous the one before.
func instance(pod *loop.Pod, name string, previous bool) (runtime.ContainerID, error) {
	lists := [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses}
	for _, list := range lists {
		i := slices.IndexFunc(list, func(c v1.ContainerStatus) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		if id := instanceOf(&list[i], previous); id != "" {
			return runtime.ParseContainerID(id)
		}
		return runtime.ContainerID{}, noInstance(&list[i], pod.Pod.Name, previous)
	}
	return runtime.ContainerID{}, badRequest("container %q in pod %q is not available", name, pod.Pod.Name)
}

func instanceOf(c *v1.ContainerStatus, previous bool) string {
	last := c.LastTerminationState.Terminated
	switch {
	case c.State.Running != nil && !previous:
		return c.ContainerID
	case c.State.Terminated != nil && !previous && c.State.Terminated.ContainerID != "":
		return c.State.Terminated.ContainerID
	case last != nil:
		return last.ContainerID
	}
	return ""
}

// noInstance returns the reason why there is no log.
func noInstance(c *v1.ContainerStatus, pod string, previous bool) error {
	switch {
	case previous:
		return badRequest("previous terminated container %q in pod %q not found", c.Name, pod)
	case c.State.Terminated != nil:
		return badRequest("container %q in pod %q is terminated", c.Name, pod)
	case c.State.Waiting != nil:
		return badRequest("container %q in pod %q is waiting to start: %s", c.Name, pod, c.State.Waiting.Reason)
	}
	return badRequest("container %q in pod %q is waiting to start - no logs yet", c.Name, pod)
}

// servePods serves the agent's pods with their statuses.
func (s *Server) servePods(a *answer, r *http.Request) error {
	return s.encode(r, func() error {
		pods := s.config.Agent.Pods()
		return writePods(a, len(pods), func(i int) *v1.Pod {
			pod := *pods[i].Pod
			pod.Status = pods[i].Status
			return &pod
		})
	})
}

// serveRunningPods serves the running pods, as the runtime reports them.
func (s *Server) serveRunningPods(a *answer, r *http.Request) error {
	return s.encode(r, func() error {
		var items []*v1.Pod
		cache := s.config.Agent.Cache()
		for _, uid := range cache.UIDs() {
			status, _ := cache.Get(uid)
			if pod := runningPod(status); pod != nil {
				items = append(items, pod)
			}
		}
		slices.SortFunc(items, func(a, b *v1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
		return writePods(a, len(items), func(i int) *v1.Pod { return items[i] })
	})
}

// runningPod returns a pod as the runtime reports it, nil if no container and no sandbox of the pod runs.
func runningPod(status *runtime.PodStatus) *v1.Pod {
	if status.Empty() {
		return nil
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: status.Name, Namespace: status.Namespace, UID: status.UID}}
	for _, c := range status.Containers {
		if c.State == runtime.ContainerRunning {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: c.Name, Image: c.Image})
		}
	}
	if len(pod.Spec.Containers) == 0 && status.ActiveSandbox() == nil {
		return nil
	}
	return pod
}

// writePods writes a list of n pods. It encodes one pod at a time, so that only the answer holds the whole list.
func writePods(a *answer, n int, pod func(i int) *v1.Pod) error {
	a.Header().Set("Content-Type", "application/json")
	_, err := io.WriteString(a, `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[`)
	for i := 0; i < n && err == nil; i++ {
		if i > 0 {
			_, err = io.WriteString(a, ",")
		}
		if err == nil {
			err = writeValue(a, pod(i))
		}
	}
	if err == nil {
		_, err = io.WriteString(a, "]}")
	}
	return err
}

// writeJSON serves a value as JSON.
func (s *Server) writeJSON(a *answer, r *http.Request, value any) error {
	a.Header().Set("Content-Type", "application/json")
	return s.encode(r, func() error { return writeValue(a, value) })
}

func writeValue(a *answer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = a.Write(text)
	return err
}
