package container

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

func (in *Input) labels() map[string]string {
	labels := make(map[string]string, len(in.Labels)+4)
	maps.Copy(labels, in.Labels)
	labels[runtime.LabelPodName] = in.Pod.Name
	labels[runtime.LabelPodNamespace] = in.Pod.Namespace
	labels[runtime.LabelPodUID] = string(in.Pod.UID)
	labels[runtime.LabelContainerName] = in.Name
	return labels
}

// maxRecorded limits the handlers, ports and paths in a pod that the its containers' annotations record, in bytes. The
// runtime returns the annotations for all containers in one message with at most 16 MiB; an agent that cannot read it
// knows no pod. The limit leaves room for two container instances in each pod among a kubelet's 110.
const maxRecorded = 64 << 10

// CheckRecorded returns an error if the pod's container annotations are together too long to create a container.
// Ephemeral containers' annotations count only for an ephemeral container, so that none prevents another container's
// restart.
func CheckRecorded(spec *v1.PodSpec, name string) error {
	if spec == nil {
		return nil
	}
	recorded := 0
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			c := &list[i]
			recorded += len(c.TerminationMessagePath)
			if len(c.Ports) > 0 {
				recorded += jsonSize(c.Ports)
			}
			if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
				recorded += jsonSize(c.Lifecycle.PreStop)
			}
		}
	}
	if slices.ContainsFunc(spec.EphemeralContainers, func(c v1.EphemeralContainer) bool { return c.Name == name }) {
		for i := range spec.EphemeralContainers { // they have neither ports nor handlers
			recorded += len(spec.EphemeralContainers[i].TerminationMessagePath)
		}
	}
	if recorded > maxRecorded {
		return fmt.Errorf("the ports, lifecycle.preStop and terminationMessagePath of the pod's containers have more than %d bytes", maxRecorded)
	}
	return nil
}

func jsonSize(value any) int {
	text, _ := json.Marshal(value) // setJSON returns the error
	return len(text)
}

// annotations records the facts that are needed to handle and stop the container without the pod's
// spec.
func (in *Input) annotations(c *v1.Container) (map[string]string, error) {
	a := make(map[string]string, len(in.Annotations)+8)
	maps.Copy(a, in.Annotations)
	a[runtime.AnnotationHash] = strconv.FormatUint(runtime.HashContainer(c), 16)
	a[runtime.AnnotationRestartCount] = strconv.FormatUint(uint64(in.Attempt), 10)
	a[runtime.AnnotationTerminationMessagePath] = c.TerminationMessagePath
	a[runtime.AnnotationTerminationMessagePolicy] = string(c.TerminationMessagePolicy)
	setSeconds(a, runtime.AnnotationDeletionGracePeriod, in.Pod.DeletionGracePeriodSeconds)
	setSeconds(a, runtime.AnnotationTerminationGracePeriod, in.Pod.Spec.TerminationGracePeriodSeconds)
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		if err := setJSON(a, runtime.AnnotationPreStopHandler, c.Lifecycle.PreStop); err != nil {
			return nil, fmt.Errorf("lifecycle.preStop: %w", err)
		}
	}
	if len(c.Ports) > 0 {
		if err := setJSON(a, runtime.AnnotationPorts, c.Ports); err != nil {
			return nil, fmt.Errorf("ports: %w", err)
		}
	}
	return a, nil
}

func setSeconds(annotations map[string]string, key string, seconds *int64) {
	if seconds != nil {
		annotations[key] = strconv.FormatInt(*seconds, 10)
	}
}

func setJSON(annotations map[string]string, key string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	annotations[key] = string(text)
	return nil
}
