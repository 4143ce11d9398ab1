package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/rig/conformance/record"
	"github.com/podsync/podsync/runtime"
)

// neverRan: a pod that runs once and none of whose containers has run gets a
// new sandbox for a lost one. The kubelet then only kills the pod, which waits
// for ever (kubernetes #118321, #123839).
const neverRan = "S3: a pod that never ran is started"

func checkActions(line []byte) (outcome, error) {
	var c record.Actions
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded actions case: %w", err)
	}
	in, err := c.Input()
	if err != nil {
		return outcome{}, fmt.Errorf("actions case %s: %w", c.Name, err)
	}
	got := kubeletForm(in, actions.Compute(in))
	o := outcome{name: c.Name, diff: sideBySide(compareActions(c.Want, got))}
	if o.diff != "" && sideBySide(compareActions(c.Want, withoutS3(in, got))) == "" {
		o.deviation, o.diff = neverRan, ""
	}
	return o, nil
}

// withoutS3 reverts the effect of the rule neverRan. If the rule does not apply, it returns got.
func withoutS3(in actions.Input, got record.ActionsWant) record.ActionsWant {
	ran := func(c runtime.ContainerStatus) bool { return c.State != runtime.ContainerCreated }
	if in.Pod.Spec.RestartPolicy != v1.RestartPolicyNever || in.RestartAll || !got.CreateSandbox ||
		len(in.Status.Sandboxes) == 0 || len(in.Status.Containers) == 0 || slices.ContainsFunc(in.Status.Containers, ran) {
		return got
	}
	if fromTheStart := startsOf(in.Pod); fmt.Sprint(fromTheStart) != fmt.Sprint([2][]int{got.InitContainersToStart, got.ContainersToStart}) {
		return got
	}
	got.CreateSandbox, got.InitContainersToStart, got.ContainersToStart = false, nil, nil
	return got
}

// startsOf are the init and the regular containers that a pod starts with.
func startsOf(pod *v1.Pod) (starts [2][]int) {
	if len(pod.Spec.InitContainers) > 0 {
		starts[0] = []int{0}
		return starts
	}
	for i := range pod.Spec.Containers {
		starts[1] = append(starts[1], i)
	}
	return starts
}

func compareActions(want, got record.ActionsWant) []row {
	text := func(v any) string { return strings.Trim(fmt.Sprint(v), "[]") } // null and [] are the same
	return []row{
		{"killPod", text(want.KillPod), text(got.KillPod)},
		{"createSandbox", text(want.CreateSandbox), text(got.CreateSandbox)},
		{"sandboxID", want.SandboxID, got.SandboxID},
		{"attempt", text(want.Attempt), text(got.Attempt)},
		{"initContainersToStart", text(want.InitContainersToStart), text(got.InitContainersToStart)},
		{"containersToStart", text(want.ContainersToStart), text(got.ContainersToStart)},
		{"ephemeralContainersToStart", text(want.EphemeralContainersToStart), text(got.EphemeralContainersToStart)},
		{"containersToKill", text(want.ContainersToKill), text(got.ContainersToKill)},
		{"containersToReset", text(want.ContainersToReset), text(got.ContainersToReset)},
	}
}

// kubeletForm converts a plan to the kubelet's form. The kubelet has no counterpart of Clear, Release and
// Resize.
func kubeletForm(in actions.Input, p actions.Plan) record.ActionsWant {
	form := record.ActionsWant{
		KillPod:       p.KillPod || p.Sandbox.Create, // the kubelet kills before it creates, even if the pod has no sandbox
		CreateSandbox: p.Sandbox.Create,
		SandboxID:     p.Sandbox.ID,
		Attempt:       p.Sandbox.Attempt,
	}
	if p.Sandbox.Reason == actions.SandboxNetworkChanged {
		form.SandboxID = "" // the kubelet does not name the sandbox it leaves for this reason
	}
	for _, s := range p.Start {
		switch s.Container.Kind {
		case actions.InitContainer:
			form.InitContainersToStart = append(form.InitContainersToStart, s.Container.Index)
		case actions.EphemeralContainer:
			form.EphemeralContainersToStart = append(form.EphemeralContainersToStart, s.Container.Index)
		default:
			form.ContainersToStart = append(form.ContainersToStart, s.Container.Index)
		}
	}
	if p.KillPod && !p.Sandbox.Create {
		form.EphemeralContainersToStart = neverSeen(in, p)
	}
	for _, s := range p.Kill {
		form.ContainersToKill = append(form.ContainersToKill, record.ContainerAction{
			ID: s.ID.ID, Name: s.Container.Name, Reason: kubeletKillReason(s.Reason),
		})
	}
	slices.SortFunc(form.ContainersToKill, func(a, b record.ContainerAction) int { return strings.Compare(a.ID, b.ID) })
	resets := slices.Clone(p.Reset)
	slices.SortStableFunc(resets, inKubeletOrder)
	for _, s := range resets {
		reset := record.ContainerAction{ID: s.ID.ID, Name: s.Container.Name}
		if s.Stop {
			reset.Reason = "kill"
		}
		form.ContainersToReset = append(form.ContainersToReset, reset)
	}
	return form
}

// inKubeletOrder orders the steps of a restart of all containers as the kubelet lists them:
// regular ones before init containers.
func inKubeletOrder(a, b actions.ResetStep) int {
	return cmp.Or(cmp.Compare(a.Container.Kind, b.Container.Kind), cmp.Compare(a.Container.Index, b.Container.Index))
}

// neverSeen returns the ephemeral containers without a record in the runtime. The kubelet lists them to be started
// before it finds that the pod has finished, and then starts none of them.
func neverSeen(in actions.Input, p actions.Plan) (indexes []int) {
	if p.Sandbox.Reason != actions.ReasonNone {
		return nil
	}
	for i := range in.Pod.Spec.EphemeralContainers {
		if in.Status.Latest(in.Pod.Spec.EphemeralContainers[i].Name) == nil {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

func kubeletKillReason(r actions.Reason) string {
	switch r {
	case actions.ContainerStateUnknown:
		return "Unknown"
	case actions.LivenessFailed:
		return "LivenessProbe"
	case actions.StartupFailed:
		return "StartupProbe"
	}
	return ""
}
