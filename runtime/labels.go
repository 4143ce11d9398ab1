package runtime

import v1 "k8s.io/api/core/v1"

// Labels that identify the pod of a sandbox or container. A kubelet writes the same ones, and log
// shippers, crictl and monitoring read them.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"
)

// Annotations of a container that let an agent started later, without the
// pod's spec, judge and stop it. A kubelet writes the same ones.
const (
	// AnnotationHash is HashContainer of the spec, in lower-case hexadecimal.
	AnnotationHash = "io.kubernetes.container.hash"
	// AnnotationRestartCount is the attempt, in decimal.
	AnnotationRestartCount = "io.kubernetes.container.restartCount"
	// AnnotationTerminationMessagePath and AnnotationTerminationMessagePolicy are
	// the spec's fields of that name.
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	// AnnotationPreStopHandler is the v1.LifecycleHandler to run before a stop, as JSON.
	AnnotationPreStopHandler = "io.kubernetes.container.preStopHandler"
	// AnnotationPorts is the list of v1.ContainerPort, as JSON.
	AnnotationPorts = "io.kubernetes.container.ports"
	// AnnotationDeletionGracePeriod and AnnotationTerminationGracePeriod are the
	// pod's grace periods in seconds, absent when the pod has none.
	AnnotationDeletionGracePeriod    = "io.kubernetes.pod.deletionGracePeriod"
	AnnotationTerminationGracePeriod = "io.kubernetes.pod.terminationGracePeriod"
)

// AnnotationImageVolumes lists the images that a container mounts as volumes, by the names passed
// to the runtime, separated by spaces. Only podsync uses it.
const AnnotationImageVolumes = "podsync.io/image-volumes"

// Annotations of a pod that an agent writes. A kubelet writes the same ones.
const (
	// AnnotationConfigSource is the source of the pod. A pod of any source except ConfigSourceAPI
	// is a static pod.
	AnnotationConfigSource = "kubernetes.io/config.source"
	// AnnotationConfigHash is the UID assigned to a static pod.
	AnnotationConfigHash = "kubernetes.io/config.hash"
	// AnnotationConfigSeen is when the agent first saw a static pod, in RFC 3339.
	AnnotationConfigSeen = "kubernetes.io/config.seen"
)

// The sources of pods that a kubelet has, as AnnotationConfigSource names them.
const (
	ConfigSourceAPI  = "api"
	ConfigSourceFile = "file"
	ConfigSourceHTTP = "http"
)

// IsStatic reports whether the pod comes from a source on the node itself. A pod without the
// annotation counts as one from an API server.
func IsStatic(pod *v1.Pod) bool {
	if pod == nil {
		return false
	}
	source, known := pod.Annotations[AnnotationConfigSource]
	return known && source != ConfigSourceAPI
}
