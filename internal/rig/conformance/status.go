package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/status"
)

// createdMayRun: a pod with a created container that may be started has not
// finished, regardless of the exit of an earlier instance (kubernetes #107845). The kubelet
// counts such a container as stopped and reports the pod as finished, although it would start that
// container.
const createdMayRun = "C8: a pod with a created container has not ended"

func checkStatus(line []byte) (outcome, error) {
	var c record.Status
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded status: %w", err)
	}
	if c.Name == "" {
		return outcome{}, errors.New("status: the line has no name")
	}
	in, err := c.Input()
	if err != nil {
		return outcome{}, fmt.Errorf("status %s: %w", c.Name, err)
	}
	got := status.GeneratePodStatus(in)
	o := outcome{name: c.Name, diff: compareStatus(&c.Want, &got)}
	if o.diff != "" && got.Phase == v1.PodRunning && c.Want.Phase == v1.PodFailed && hasCreated(in) {
		ended := reportedBefore(in, v1.PodFailed) // and all else follows from the phase
		if compareStatus(&c.Want, &ended) == "" {
			o.deviation, o.diff = createdMayRun, ""
		}
	}
	return o, nil
}

// hasCreated reports whether a regular container is created.
func hasCreated(in status.Input) bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c v1.Container) bool {
		latest := in.Status.Latest(c.Name)
		return latest != nil && latest.State == runtime.ContainerCreated
	})
}

// reportedBefore is the status of a pod that was in another phase before.
func reportedBefore(in status.Input, phase v1.PodPhase) v1.PodStatus {
	before := in.Pod.Status
	before.Phase = phase
	in.Previous = &before
	return status.GeneratePodStatus(in)
}

// compareStatus leaves out the resources, which are not in the record.
func compareStatus(want, got *v1.PodStatus) string {
	got = got.DeepCopy()
	for _, list := range [][]v1.ContainerStatus{got.InitContainerStatuses, got.ContainerStatuses, got.EphemeralContainerStatuses} {
		for i := range list {
			list[i].Resources = nil
		}
	}
	return sideBySide(compareTrees("", jsonTree(want), jsonTree(got)))
}

// jsonTree is a value as JSON values, which can be walked without its type.
func jsonTree(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	return v
}
