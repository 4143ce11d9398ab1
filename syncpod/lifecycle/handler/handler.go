package handler

import v1 "k8s.io/api/core/v1"

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
