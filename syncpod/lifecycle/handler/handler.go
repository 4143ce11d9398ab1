package handler

import v1 "k8s.io/api/core/v1"

// EventHTTPFallback is the reason of the event for an HTTPS handler whose endpoint responded in
// plain HTTP, so that the handler succeeded without TLS. FallbackMessage is the text of the event,
// with the name of the container. Both are a kubelet's.
const (
	EventHTTPFallback = "LifecycleHTTPFallback"
	FallbackMessage   = "request to HTTPS lifecycle hook of container %s got HTTP response, retry with HTTP succeeded"
)

// Address returns the address for the handlers of a pod: the primary address that the runtime reports, or
// else the one in the pod's status. The pod is nil if its spec is unknown.
func Address(pod *v1.Pod, reported []string) string {
	switch {
	case len(reported) > 0 && reported[0] != "":
		return reported[0]
	case pod != nil:
		return pod.Status.PodIP
	}
	return ""
}
