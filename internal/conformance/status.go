package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/conformance/record"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// staysRunning: a pod that was reported to run does not become pending again
// because containers of it wait for another run (kubernetes #58711). The kubelet
// makes the phase anew from the containers alone.
const staysRunning = "T1: a running pod does not become pending"

// createdMayRun: a pod with a container that is created and may be started has not
// ended, however an earlier instance of it did (kubernetes #107845). The kubelet
// counts such a container as stopped.
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
	got := apistatus.Compute(in)
	o := outcome{name: c.Name, diff: compareStatus(&c.Want, &got)}
	if rule, phase := statusRule(&c, in, got.Phase); o.diff != "" && rule != "" {
		without := reportedBefore(in, phase)
		if compareStatus(&c.Want, &without) == "" {
			o.deviation, o.diff = rule, ""
		}
	}
	return o, nil
}

// statusRule returns the rule by which the phase may differ, and the phase that
// takes the rule back when it is the one reported before: the rule then sees
// nothing to hold.
func statusRule(c *record.Status, in apistatus.Input, got v1.PodPhase) (rule string, takenBack v1.PodPhase) {
	before, want := c.Pod.Status.Phase, c.Want.Phase
	switch {
	case before == v1.PodRunning && got == v1.PodRunning && want == v1.PodPending:
		return staysRunning, v1.PodPending
	case got == v1.PodRunning && want == v1.PodFailed && hasCreated(in):
		return createdMayRun, v1.PodFailed
	}
	return "", ""
}

// hasCreated reports whether a regular container is created.
func hasCreated(in apistatus.Input) bool {
	return slices.ContainsFunc(in.Pod.Spec.Containers, func(c v1.Container) bool {
		latest := in.Status.Latest(c.Name)
		return latest != nil && latest.State == runtime.ContainerCreated
	})
}

// reportedBefore is the status of a pod that was in another phase before.
func reportedBefore(in apistatus.Input, phase v1.PodPhase) v1.PodStatus {
	before := in.Pod.Status
	before.Phase = phase
	in.Previous = &before
	return apistatus.Compute(in)
}

func compareStatus(want, got *v1.PodStatus) string {
	return sideBySide(compareTrees("", jsonTree(want), jsonTree(got)))
}

// jsonTree is a status as JSON values, which can be walked without its type.
func jsonTree(s *v1.PodStatus) any {
	text, err := json.Marshal(s)
	if err != nil {
		return err.Error()
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err.Error()
	}
	return v
}
