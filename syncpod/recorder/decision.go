package recorder

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/runtime"
)

// A Decision is one decision on a pod, as it is recorded. Fields may be added, and none is renamed.
type Decision struct {
	// Time is that of the decision. Dropped is the number of decisions before it that were not recorded.
	Time    time.Time `json:"time"`
	Dropped int64     `json:"dropped,omitempty"`
	// Name is namespace/name of the pod. Pod has only what the decision depends on.
	Name string `json:"name"`
	Pod  v1.Pod `json:"pod"`
	// NoStatus means that the input had no status.
	NoStatus   bool        `json:"noStatus,omitempty"`
	Sandboxes  []Sandbox   `json:"sandboxes"`
	Containers []Container `json:"containers"`
	// Liveness and Startup are the probe results by the container's ID.
	Liveness             map[string]string `json:"liveness,omitempty"`
	Startup              map[string]string `json:"startup,omitempty"`
	RestartAllContainers bool              `json:"restartAllContainers,omitempty"`
	// The fields below are those of an actions.Input with these names. Holds have no message.
	StatusComplete   bool            `json:"statusComplete,omitempty"`
	Started          []string        `json:"started,omitempty"`
	Restarting       []string        `json:"restarting,omitempty"`
	PostStartPending []string        `json:"postStartPending,omitempty"`
	AddressWait      *Hold           `json:"addressWait,omitempty"`
	SandboxHold      *Hold           `json:"sandboxHold,omitempty"`
	StartHolds       map[string]Hold `json:"startHolds,omitempty"`
	ResizeHolds      map[string]Hold `json:"resizeHolds,omitempty"`
	CPUSetHolds      map[string]Hold `json:"cpusetHolds,omitempty"`
	// CPUSets are the CPUs and NUMA nodes that the containers should have.
	CPUSets map[string]runtime.CPUSet `json:"cpusets,omitempty"`
	Blocked *Hold                     `json:"blocked,omitempty"`
	End     *actions.Reason           `json:"end,omitempty"`
	// Plan is the plan in words: actions.Plan.String.
	Plan string `json:"plan"`
}

// A Sandbox is a recorded sandbox. IP is nil if the runtime reported no network, and empty for a network without an address.
type Sandbox struct {
	ID      string  `json:"id"`
	State   string  `json:"state"`
	Attempt uint32  `json:"attempt"`
	Network string  `json:"network"`
	IP      *string `json:"ip"`
}

// A Container is a recorded container.
type Container struct {
	ID           string                      `json:"id"`
	Name         string                      `json:"name"`
	Runtime      string                      `json:"runtime"`
	State        string                      `json:"state"`
	SandboxID    string                      `json:"sandboxID,omitempty"`
	RestartCount uint32                      `json:"restartCount"`
	SpecHash     uint64                      `json:"specHash,omitempty"`
	StartedAt    time.Time                   `json:"startedAt,omitzero"`
	ExitCode     int32                       `json:"exitCode"`
	Reason       string                      `json:"reason,omitempty"`
	Resources    *runtime.ContainerResources `json:"resources,omitempty"`
	CPUSet       *runtime.CPUSet             `json:"cpuset,omitempty"`
	// SpecChanged means that SpecHash differs from the hash of the container in the pod.
	SpecChanged bool `json:"specChanged,omitempty"`
}

// A Hold is a recorded actions.Hold.
type Hold struct {
	Reason actions.Reason `json:"reason"`
	Until  time.Time      `json:"until,omitzero"`
}

// The words of a record are those of the decisions of a kubelet.

func sandboxStates() words[runtime.SandboxState] {
	return words[runtime.SandboxState]{runtime.SandboxReady: "ready", runtime.SandboxNotReady: "notready"}
}

func networks() words[runtime.NamespaceMode] {
	return words[runtime.NamespaceMode]{runtime.NamespacePod: "POD", runtime.NamespaceNode: "NODE", runtime.NamespaceContainer: "CONTAINER", runtime.NamespaceTarget: "TARGET"}
}

func containerStates() words[runtime.ContainerState] {
	return words[runtime.ContainerState]{runtime.ContainerCreated: "created", runtime.ContainerRunning: "running", runtime.ContainerExited: "exited", runtime.ContainerUnknown: "unknown"}
}

func probeResults() words[actions.ProbeResult] {
	return words[actions.ProbeResult]{actions.ProbeSuccess: "success", actions.ProbeFailure: "failure", actions.ProbeUnknown: "unknown"}
}

// words are the words for values.
type words[T comparable] map[T]string

// value returns the value of a word, zero for an unknown one.
func (w words[T]) value(word string) (value T) {
	for v, known := range w {
		if known == word {
			return v
		}
	}
	return value
}

func decisionOf(in actions.Input) Decision {
	d := Decision{
		Name: in.Pod.Namespace + "/" + in.Pod.Name, Pod: reduced(in.Pod), NoStatus: in.Status == nil,
		Liveness: map[string]string{}, Startup: map[string]string{}, RestartAllContainers: in.RestartAll,
		StatusComplete: in.StatusComplete, Started: in.Started, Restarting: idsOf(in.Restarting), PostStartPending: idsOf(in.PostStartPending),
		AddressWait: holdOf(in.AddressWait), SandboxHold: holdOf(in.SandboxHold), Blocked: holdOf(in.Blocked),
		StartHolds: holdsOf(in.StartHolds), ResizeHolds: holdsOf(in.ResizeHolds), CPUSets: in.CPUSets, CPUSetHolds: holdsOf(in.CPUSetHolds),
	}
	if in.End != actions.ReasonNone {
		d.End = &in.End
	}
	for id, results := range in.Probes {
		if results.Liveness != actions.ProbePending {
			d.Liveness[id.ID] = probeResults()[results.Liveness]
		}
		if results.Startup != actions.ProbePending {
			d.Startup[id.ID] = probeResults()[results.Startup]
		}
	}
	if in.Status == nil {
		return d
	}
	for _, s := range in.Status.Sandboxes {
		recorded := Sandbox{ID: s.ID, State: sandboxStates()[s.State], Attempt: s.Attempt, Network: networks()[s.NetworkMode]}
		if s.Network != nil {
			ip := ""
			if len(s.Network.IPs) > 0 {
				ip = s.Network.IPs[0]
			}
			recorded.IP = &ip
		}
		d.Sandboxes = append(d.Sandboxes, recorded)
	}
	hashes := map[string]uint64{}
	for c := range runtime.AllContainers(in.Pod) {
		hashes[c.Name] = runtime.HashContainer(c)
	}
	for _, c := range in.Status.Containers {
		recorded := Container{
			ID: c.ID.ID, Name: c.Name, Runtime: c.ID.Type, State: containerStates()[c.State], SandboxID: c.SandboxID, RestartCount: c.Attempt,
			SpecHash: c.SpecHash, StartedAt: c.StartedAt, ExitCode: c.ExitCode, Reason: c.Reason, Resources: c.Resources, CPUSet: c.CPUSet,
			SpecChanged: c.SpecHash != 0 && c.SpecHash != hashes[c.Name],
		}
		d.Containers = append(d.Containers, recorded)
	}
	return d
}

// Input returns an input with which this version can make the decision.
func (d *Decision) Input() actions.Input {
	in := actions.Input{
		Pod: &d.Pod, Probes: map[runtime.ContainerID]actions.ProbeResults{}, RestartAll: d.RestartAllContainers,
		StatusComplete: d.StatusComplete, Started: d.Started, AddressWait: d.AddressWait.hold(), SandboxHold: d.SandboxHold.hold(), Blocked: d.Blocked.hold(),
		StartHolds: inputHolds(d.StartHolds), ResizeHolds: inputHolds(d.ResizeHolds), CPUSets: d.CPUSets, CPUSetHolds: inputHolds(d.CPUSetHolds),
	}
	if d.End != nil {
		in.End = *d.End
	}
	ids := map[string]runtime.ContainerID{}
	if !d.NoStatus || len(d.Sandboxes)+len(d.Containers) > 0 {
		in.Status = &runtime.PodStatus{UID: d.Pod.UID, Name: d.Pod.Name, Namespace: d.Pod.Namespace}
	}
	for _, s := range d.Sandboxes {
		status := runtime.SandboxStatus{ID: s.ID, State: sandboxStates().value(s.State), Attempt: s.Attempt, NetworkMode: networks().value(s.Network)}
		if s.IP != nil {
			status.Network = &runtime.SandboxNetwork{}
			if *s.IP != "" {
				status.Network.IPs = []string{*s.IP}
			}
		}
		in.Status.Sandboxes = append(in.Status.Sandboxes, status)
	}
	for _, c := range d.Containers {
		status := runtime.ContainerStatus{
			ID: runtime.ContainerID{Type: c.Runtime, ID: c.ID}, Name: c.Name, State: containerStates().value(c.State), SandboxID: c.SandboxID, Attempt: c.RestartCount,
			SpecHash: c.SpecHash, StartedAt: c.StartedAt, ExitCode: c.ExitCode, Reason: c.Reason, Resources: c.Resources, CPUSet: c.CPUSet,
		}
		ids[status.ID.ID] = status.ID
		in.Status.Containers = append(in.Status.Containers, status)
	}
	whole := func(id string) runtime.ContainerID {
		if known, ok := ids[id]; ok {
			return known
		}
		return runtime.ContainerID{ID: id}
	}
	for id, word := range d.Liveness {
		results := in.Probes[whole(id)]
		results.Liveness = probeResults().value(word)
		in.Probes[whole(id)] = results
	}
	for id, word := range d.Startup {
		results := in.Probes[whole(id)]
		results.Startup = probeResults().value(word)
		in.Probes[whole(id)] = results
	}
	for _, id := range d.Restarting {
		in.Restarting = append(in.Restarting, whole(id))
	}
	for _, id := range d.PostStartPending {
		in.PostStartPending = append(in.PostStartPending, whole(id))
	}
	return in
}

func idsOf(ids []runtime.ContainerID) (texts []string) {
	for _, id := range ids {
		texts = append(texts, id.ID)
	}
	return texts
}

func holdOf(h actions.Hold) *Hold {
	if !h.Holds() {
		return nil
	}
	return &Hold{h.Reason, h.Until}
}

func (h *Hold) hold() actions.Hold {
	if h == nil {
		return actions.Hold{}
	}
	return actions.Hold{Reason: h.Reason, Until: h.Until}
}

func holdsOf(holds map[string]actions.Hold) map[string]Hold {
	recorded := map[string]Hold{}
	for name, h := range holds {
		if h.Holds() {
			recorded[name] = Hold{h.Reason, h.Until}
		}
	}
	return recorded
}

func inputHolds(recorded map[string]Hold) map[string]actions.Hold {
	holds := map[string]actions.Hold{}
	for name, h := range recorded {
		holds[name] = h.hold()
	}
	return holds
}
