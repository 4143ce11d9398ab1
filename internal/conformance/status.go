package main

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/internal/conformance/record"
	"github.com/podsync/podsync/syncpod/apistatus"
)

// staysRunning: a pod that was reported to run does not become pending again
// because containers of it wait for another run (kubernetes #58711). The kubelet
// makes the phase anew from the containers alone.
const staysRunning = "T1: a running pod does not become pending"

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
	if o.diff != "" && compareStatus(&c.Want, withoutT1(in, got)) == "" {
		o.deviation, o.diff = staysRunning, ""
	}
	return o, nil
}

// withoutT1 takes the rule staysRunning back, by hiding that the pod ran. Of any
// other case it returns what it was given.
func withoutT1(in apistatus.Input, got v1.PodStatus) *v1.PodStatus {
	if in.Pod.Status.Phase == v1.PodRunning && got.Phase == v1.PodRunning {
		before := in.Pod.Status
		before.Phase = v1.PodPending
		in.Previous = &before
		got = apistatus.Compute(in)
	}
	return &got
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
