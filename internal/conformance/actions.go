package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// actionsCase is one recorded decision of the kubelet's computePodActions.
type actionsCase struct {
	Name                 string            `json:"name"`
	Pod                  v1.Pod            `json:"pod"`
	Sandboxes            []sandboxRecord   `json:"sandboxes"`
	Containers           []containerRecord `json:"containers"`
	Liveness             map[string]string `json:"liveness"`
	Startup              map[string]string `json:"startup"`
	RestartAllContainers bool              `json:"restartAllContainers"`
	Want                 actionsWant       `json:"want"`
}

type sandboxRecord struct {
	ID      string  `json:"id"`
	State   string  `json:"state"`
	Attempt uint32  `json:"attempt"`
	Network string  `json:"network"`
	IP      *string `json:"ip"`
}

type containerRecord struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	State        string `json:"state"`
	ExitCode     int32  `json:"exitCode"`
	Reason       string `json:"reason"`
	RestartCount uint32 `json:"restartCount"`
	SpecChanged  bool   `json:"specChanged"`
}

type actionsWant struct {
	KillPod                    bool              `json:"killPod"`
	CreateSandbox              bool              `json:"createSandbox"`
	SandboxID                  string            `json:"sandboxID"`
	Attempt                    uint32            `json:"attempt"`
	InitContainersToStart      []int             `json:"initContainersToStart"`
	ContainersToStart          []int             `json:"containersToStart"`
	EphemeralContainersToStart []int             `json:"ephemeralContainersToStart"`
	ContainersToKill           []containerAction `json:"containersToKill"`
	ContainersToReset          []containerAction `json:"containersToReset"`
}

type containerAction struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (a containerAction) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s(%s) %s", a.Name, a.ID, a.Reason), " ")
}

func checkActions(line []byte) (outcome, error) {
	var c actionsCase
	if err := json.Unmarshal(line, &c); err != nil {
		return outcome{}, fmt.Errorf("not a recorded actions case: %w", err)
	}
	in, err := c.input()
	if err != nil {
		return outcome{}, err
	}
	got := kubeletForm(actions.Compute(in))
	return outcome{name: c.Name, diff: sideBySide(compareActions(c.Want, got))}, nil
}

func compareActions(want, got actionsWant) []row {
	text := func(v any) string { return strings.Trim(fmt.Sprint(v), "[]") }
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

// kubeletForm says a plan in the kubelet's words. What a plan holds beyond them
// (Clear, Release, Resize) has no counterpart there.
func kubeletForm(p actions.Plan) actionsWant {
	form := actionsWant{
		KillPod:       p.KillPod,
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
	for _, s := range p.Kill {
		form.ContainersToKill = append(form.ContainersToKill, containerAction{s.ID.ID, s.Container.Name, kubeletKillReason(s.Reason)})
	}
	slices.SortFunc(form.ContainersToKill, func(a, b containerAction) int { return strings.Compare(a.ID, b.ID) })
	for _, s := range p.Reset {
		reset := containerAction{ID: s.ID.ID, Name: s.Container.Name}
		if s.Stop {
			reset.Reason = "kill"
		}
		form.ContainersToReset = append(form.ContainersToReset, reset)
	}
	return form
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

// input makes of a record what Compute is given.
func (c *actionsCase) input() (actions.Input, error) {
	in := actions.Input{
		Pod:        &c.Pod,
		Status:     &runtime.PodStatus{UID: c.Pod.UID, Name: c.Pod.Name, Namespace: c.Pod.Namespace},
		Probes:     map[runtime.ContainerID]actions.ProbeResults{},
		RestartAll: c.RestartAllContainers,
	}
	for _, s := range c.Sandboxes {
		in.Status.Sandboxes = append(in.Status.Sandboxes, s.status())
	}
	hashes := specHashes(&c.Pod)
	for _, k := range c.Containers {
		status, err := k.status(hashes[k.Name])
		if err != nil {
			return in, err
		}
		in.Status.Containers = append(in.Status.Containers, status)
	}
	for id, result := range c.Liveness {
		p := in.Probes[containerID(id)]
		p.Liveness = probeResult(result)
		in.Probes[containerID(id)] = p
	}
	for id, result := range c.Startup {
		p := in.Probes[containerID(id)]
		p.Startup = probeResult(result)
		in.Probes[containerID(id)] = p
	}
	return in, nil
}

func containerID(id string) runtime.ContainerID {
	return runtime.ContainerID{Type: "containerd", ID: id}
}

func probeResult(s string) actions.ProbeResult {
	switch s {
	case "success":
		return actions.ProbeSuccess
	case "failure":
		return actions.ProbeFailure
	}
	return actions.ProbeUnknown
}

func (s sandboxRecord) status() runtime.SandboxStatus {
	status := runtime.SandboxStatus{ID: s.ID, Attempt: s.Attempt}
	if s.State == "ready" {
		status.State = runtime.SandboxReady
	}
	if s.Network == "NODE" {
		status.NetworkMode = runtime.NamespaceNode
	}
	if s.IP != nil {
		status.Network = &runtime.SandboxNetwork{}
		if *s.IP != "" {
			status.Network.IPs = []string{*s.IP}
		}
	}
	return status
}

func (k containerRecord) status(specHash uint64) (runtime.ContainerStatus, error) {
	status := runtime.ContainerStatus{
		ID: containerID(k.ID), Name: k.Name, Attempt: k.RestartCount, ExitCode: k.ExitCode, Reason: k.Reason, SpecHash: specHash,
	}
	if k.SpecChanged {
		status.SpecHash++
	}
	switch k.State {
	case "created":
		status.State = runtime.ContainerCreated
	case "running":
		status.State = runtime.ContainerRunning
	case "exited":
		status.State = runtime.ContainerExited
	case "unknown":
		status.State = runtime.ContainerUnknown
	default:
		return status, fmt.Errorf("container %s: state %q is not one of created, running, exited, unknown", k.ID, k.State)
	}
	return status, nil
}

// specHashes returns the hash of every container of the pod by name.
func specHashes(pod *v1.Pod) map[string]uint64 {
	hashes := map[string]uint64{}
	for i := range pod.Spec.InitContainers {
		hashes[pod.Spec.InitContainers[i].Name] = runtime.HashContainer(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		hashes[pod.Spec.Containers[i].Name] = runtime.HashContainer(&pod.Spec.Containers[i])
	}
	return hashes
}
