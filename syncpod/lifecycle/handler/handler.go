package handler

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// EventHTTPFallback is the event's reason for an HTTPS handler whose endpoint responded in plain
// HTTP, so that the handler succeeded without TLS. FallbackMessage is the event's text, with the
// container's name. Both are a kubelet's.
const (
	EventHTTPFallback = "LifecycleHTTPFallback"
	FallbackMessage   = "request to HTTPS lifecycle hook of container %s got HTTP response, retry with HTTP succeeded"
)

// Address returns the address for a pod's handlers: the primary address that the runtime reports, or else
// the one in the pod's status. The pod is nil if its spec is unknown.
func Address(pod *v1.Pod, reported []string) string {
	switch {
	case len(reported) > 0 && reported[0] != "":
		return reported[0]
	case pod != nil:
		return pod.Status.PodIP
	}
	return ""
}

// PreStop returns the request for a container's preStop handler from the container's annotations. Use it
// for a container whose pod's spec is unknown. The Handler is nil if the annotations have none. The
// caller sets Container, ContainerID and PodIP.
func PreStop(annotations map[string]string) (Request, error) {
	var req Request
	if err := fromJSON(annotations, runtime.AnnotationPreStopHandler, &req.Handler); err != nil || req.Handler == nil {
		return Request{}, err
	}
	if err := fromJSON(annotations, runtime.AnnotationPorts, &req.Ports); err != nil {
		return Request{}, err
	}
	return req, nil
}

func fromJSON(annotations map[string]string, key string, into any) error {
	text := annotations[key]
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("handler: annotation %s: %w", key, err)
	}
	return nil
}
