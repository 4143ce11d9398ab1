package record

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// Actions is one recorded decision of the kubelet's computePodActions.
type Actions struct {
	Name                 string          `json:"name"`
	Pod                  v1.Pod          `json:"pod"`
	Sandboxes            []Sandbox       `json:"sandboxes"`
	Containers           []Container     `json:"containers"`
	Liveness             map[string]word `json:"liveness"`
	Startup              map[string]word `json:"startup"`
	RestartAllContainers bool            `json:"restartAllContainers"`
	Want                 ActionsWant     `json:"want"`
}

// Sandbox is a recorded pod sandbox. IP is nil if the runtime reported no
// network, and empty for a network without an address.
type Sandbox struct {
	ID      string  `json:"id"`
	State   word    `json:"state"`
	Attempt uint32  `json:"attempt"`
	Network word    `json:"network"`
	IP      *string `json:"ip"`
}

// Container is a recorded container. SpecChanged means that its recorded hash
// differs from the hash of the container in the pod.
type Container struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	State        word   `json:"state"`
	ExitCode     int32  `json:"exitCode"`
	Reason       string `json:"reason"`
	RestartCount uint32 `json:"restartCount"`
	SpecChanged  bool   `json:"specChanged"`
}

// ActionsWant is the kubelet's decision.
type ActionsWant struct {
	KillPod                    bool              `json:"killPod"`
	CreateSandbox              bool              `json:"createSandbox"`
	SandboxID                  string            `json:"sandboxID"`
	Attempt                    uint32            `json:"attempt"`
	InitContainersToStart      []int             `json:"initContainersToStart"`
	ContainersToStart          []int             `json:"containersToStart"`
	EphemeralContainersToStart []int             `json:"ephemeralContainersToStart"`
	ContainersToKill           []ContainerAction `json:"containersToKill"`
	ContainersToReset          []ContainerAction `json:"containersToReset"`
}

// ContainerAction is something done to one container.
type ContainerAction struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (a ContainerAction) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%s(%s) %s", a.Name, a.ID, a.Reason), " ")
}

// Input makes of a record what Compute is given.
func (c *Actions) Input() (actions.Input, error) {
	in := actions.Input{
		Pod:        &c.Pod,
		Status:     &runtime.PodStatus{UID: c.Pod.UID, Name: c.Pod.Name, Namespace: c.Pod.Namespace},
		RestartAll: c.RestartAllContainers,
	}
	for _, s := range c.Sandboxes {
		status, err := s.status()
		if err != nil {
			return in, err
		}
		in.Status.Sandboxes = append(in.Status.Sandboxes, status)
	}
	hashes := specHashes(&c.Pod)
	for _, k := range c.Containers {
		status, err := k.status(hashes[k.Name])
		if err != nil {
			return in, err
		}
		in.Status.Containers = append(in.Status.Containers, status)
	}
	var err error
	in.Probes, err = c.probes()
	return in, err
}

func (c *Actions) probes() (map[runtime.ContainerID]actions.ProbeResults, error) {
	results := map[runtime.ContainerID]actions.ProbeResults{}
	for id, word := range c.Liveness {
		r := results[containerID(id)]
		if err := word.setProbe(&r.Liveness); err != nil {
			return nil, fmt.Errorf("liveness of %s: %w", id, err)
		}
		results[containerID(id)] = r
	}
	for id, word := range c.Startup {
		r := results[containerID(id)]
		if err := word.setProbe(&r.Startup); err != nil {
			return nil, fmt.Errorf("startup of %s: %w", id, err)
		}
		results[containerID(id)] = r
	}
	return results, nil
}

func containerID(id string) runtime.ContainerID {
	return runtime.ContainerID{Type: "containerd", ID: id}
}

// word is a value of a field with few possible values.
type word string

func (w word) setProbe(r *actions.ProbeResult) error {
	return oneOf(w, r, map[word]actions.ProbeResult{
		"success": actions.ProbeSuccess, "failure": actions.ProbeFailure, "unknown": actions.ProbeUnknown,
	})
}

// oneOf sets *to to what w means, and refuses a word that is not in meanings.
func oneOf[T any](w word, to *T, meanings map[word]T) error {
	meaning, ok := meanings[w]
	if !ok {
		return fmt.Errorf("%q is not one of %q", w, slices.Sorted(maps.Keys(meanings)))
	}
	*to = meaning
	return nil
}

func (s Sandbox) status() (runtime.SandboxStatus, error) {
	status := runtime.SandboxStatus{ID: s.ID, Attempt: s.Attempt}
	if s.IP != nil {
		status.Network = &runtime.SandboxNetwork{}
		if *s.IP != "" {
			status.Network.IPs = []string{*s.IP}
		}
	}
	if err := oneOf(s.State, &status.State, map[word]runtime.SandboxState{
		"ready": runtime.SandboxReady, "notready": runtime.SandboxNotReady,
	}); err != nil {
		return status, fmt.Errorf("state of sandbox %s: %w", s.ID, err)
	}
	if err := oneOf(s.Network, &status.NetworkMode, map[word]runtime.NamespaceMode{
		"POD": runtime.NamespacePod, "NODE": runtime.NamespaceNode,
	}); err != nil {
		return status, fmt.Errorf("network of sandbox %s: %w", s.ID, err)
	}
	return status, nil
}

// status leaves open which sandbox the container is of: the record does not say.
// Status is the container as a runtime reports it.
func (k Container) Status() (runtime.ContainerStatus, error) { return k.status(0) }

func (k Container) status(specHash uint64) (runtime.ContainerStatus, error) {
	status := runtime.ContainerStatus{
		ID: containerID(k.ID), Name: k.Name, Attempt: k.RestartCount, ExitCode: k.ExitCode, Reason: k.Reason, SpecHash: specHash,
	}
	if k.SpecChanged {
		status.SpecHash++
	}
	if err := oneOf(k.State, &status.State, map[word]runtime.ContainerState{
		"created": runtime.ContainerCreated, "running": runtime.ContainerRunning,
		"exited": runtime.ContainerExited, "unknown": runtime.ContainerUnknown,
	}); err != nil {
		return status, fmt.Errorf("state of container %s: %w", k.ID, err)
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
	for i := range pod.Spec.EphemeralContainers {
		c := v1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		hashes[c.Name] = runtime.HashContainer(&c)
	}
	return hashes
}
