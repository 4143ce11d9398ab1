package runtime

import v1 "k8s.io/api/core/v1"

// Labels that identify a sandbox's or container's pod. A kubelet writes the same labels, and log
// shippers, crictl and monitoring read them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Annotations of a container. With them, a later agent that does not have the pod's spec can judge
// and stop the container. A kubelet writes the same annotations.
const (
	// AnnotationHash is HashContainer for the spec, in lower-case hexadecimal.
	AnnotationHash = "io.kubernetes.container.hash"
	// AnnotationRestartCount is the attempt, in decimal.
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
	// AnnotationTerminationMessagePath and AnnotationTerminationMessagePolicy are those names' fields
	// in the spec.
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	// AnnotationPreStopHandler is the v1.LifecycleHandler to run before a stop, as JSON.
	AnnotationPreStopHandler = "io.kubernetes.container.preStopHandler"
	// AnnotationPorts is the v1.ContainerPort list, as JSON.
	AnnotationPorts = "io.kubernetes.container.ports"
	// AnnotationDeletionGracePeriod and AnnotationTerminationGracePeriod are the
	// pod's grace periods in seconds, absent when the pod has none.
	AnnotationDeletionGracePeriod    = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationTerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
)

// AnnotationImageVolumes lists the images that a container mounts as volumes, by the names passed
// to the runtime, separated by spaces. Only podsync uses it.
const AnnotationImageVolumes = "podsync.io/image-volumes"

// Annotations that an agent writes to a pod. A kubelet writes the same annotations.
const (
	// AnnotationConfigSource is the pod's source. A pod of any source except ConfigSourceAPI is a
	// static pod.
	AnnotationConfigSource = "kubernetes.io/config.source"
	// AnnotationConfigHash is the UID assigned to a static pod.
	AnnotationConfigHash = "kubernetes.io/config.hash"
	// AnnotationConfigSeen is when the agent first saw a static pod, in RFC 3339.
	AnnotationConfigSeen = "kubernetes.io/config.seen"
)

// A kubelet's pod sources, as AnnotationConfigSource values.
const (
	ConfigSourceAPI  = "api"
	ConfigSourceFile = "file"
	ConfigSourceHTTP = "http"
)

// IsStatic reports whether the pod comes from a source on the node itself. A pod without
// AnnotationConfigSource counts as a pod from an API server.
func IsStatic(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	source, known := pod.Annotations[AnnotationConfigSource]
	return known && source != ConfigSourceAPI
}
