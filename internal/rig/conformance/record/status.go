package record

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
	apistatus "github.com/podsync/podsync/syncpod/status"
)

// Status is a recorded result of the kubelet's generateAPIPodStatus.
// The status in the pod is the previously reported one. The record has no host IPs,
// resources and times.
type Status struct {
	Name          string            `json:"name"`
	Pod           v1.Pod            `json:"pod"`
	PodIsTerminal bool              `json:"podIsTerminal"`
	Sandboxes     []StatusSandbox   `json:"sandboxes"`
	IPs           []string          `json:"ips"`
	Containers    []StatusContainer `json:"containers"`
	Startup       map[string]word   `json:"startup"`
	Readiness     map[string]word   `json:"readiness"`
	StartErrors   map[string]string `json:"startErrors"`
	Want          v1.PodStatus      `json:"want"`
}

// StatusSandbox is a recorded pod sandbox. Its network was always reported, if
// without an address. The addresses of a ready one are Status.IPs.
type StatusSandbox struct {
	ID      string `json:"id"`
	State   word   `json:"state"`
	Attempt uint32 `json:"attempt"`
	IP      string `json:"ip"`
}

// StatusContainer is a recorded container, with times in Unix seconds.
type StatusContainer struct {
	Container
	Message         string `json:"message"`
	CreatedAt       int64  `json:"createdAt"`
	StartedAt       int64  `json:"startedAt"`
	FinishedAt      int64  `json:"finishedAt"`
	Image           string `json:"image"`
	ImageRef        string `json:"imageRef"`
	InActiveSandbox bool   `json:"inActiveSandbox"`
}

// Input makes of a record what Compute is given.
func (c *Status) Input() (apistatus.Input, error) {
	in := apistatus.Input{
		Pod:         &c.Pod,
		Status:      &runtime.PodStatus{UID: c.Pod.UID, Name: c.Pod.Name, Namespace: c.Pod.Namespace},
		Terminal:    c.PodIsTerminal,
		StartErrors: map[string]apistatus.Problem{},
	}
	for _, s := range c.Sandboxes {
		status, err := s.status(c.IPs)
		if err != nil {
			return in, err
		}
		in.Status.Sandboxes = append(in.Status.Sandboxes, status)
	}
	for _, k := range c.Containers {
		status, err := k.status(in.Status.LatestSandbox())
		if err != nil {
			return in, err
		}
		in.Status.Containers = append(in.Status.Containers, status)
	}
	for name, reason := range c.StartErrors {
		in.StartErrors[name] = apistatus.Problem{Reason: apistatus.Reason(reason), Message: "msg " + reason}
	}
	var err error
	in.Probes, err = c.probes()
	return in, err
}

func (s StatusSandbox) status(ips []string) (runtime.SandboxStatus, error) {
	status, err := Sandbox{ID: s.ID, State: s.State, Attempt: s.Attempt, Network: "POD", IP: &s.IP}.status()
	if status.State == runtime.SandboxReady && s.IP != "" {
		status.Network.IPs = ips
	}
	return status, err
}

func (k StatusContainer) status(active *runtime.SandboxStatus) (runtime.ContainerStatus, error) {
	status, err := k.Container.status(0)
	status.Message, status.Image, status.ImageRef = k.Message, k.Image, k.ImageRef
	status.CreatedAt, status.StartedAt, status.FinishedAt = unix(k.CreatedAt), unix(k.StartedAt), unix(k.FinishedAt)
	status.SandboxID = "earlier"
	if active != nil && k.InActiveSandbox {
		status.SandboxID = active.ID
	}
	return status, err
}

func unix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

func (c *Status) probes() (map[runtime.ContainerID]actions.ProbeResults, error) {
	results := map[runtime.ContainerID]actions.ProbeResults{}
	for id, word := range c.Startup {
		r := results[containerID(id)]
		if err := word.setProbe(&r.Startup); err != nil {
			return nil, fmt.Errorf("startup of %s: %w", id, err)
		}
		results[containerID(id)] = r
	}
	for id, word := range c.Readiness {
		r := results[containerID(id)]
		if err := word.setProbe(&r.Readiness); err != nil {
			return nil, fmt.Errorf("readiness of %s: %w", id, err)
		}
		results[containerID(id)] = r
	}
	return results, nil
}
