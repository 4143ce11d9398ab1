package statusjson

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// A Pod is a runtime.PodStatus without the identity of the pod and the time of the read.
type Pod struct {
	Sandboxes  []Sandbox          `json:"sandboxes,omitempty"`
	Containers []ContainerInState `json:"containers,omitempty"`
}

// A ContainerInState is a runtime.ContainerStatus.
type ContainerInState struct {
	State string `json:"state"`
	Container
}

// A Sandbox is a runtime.SandboxStatus. A missing network means that none was reported.
type Sandbox struct {
	ID             string                  `json:"id"`
	State          string                  `json:"state"`
	NetworkMode    string                  `json:"networkMode"`
	Attempt        uint32                  `json:"attempt"`
	Network        *runtime.SandboxNetwork `json:"network,omitempty"`
	CreatedAt      time.Time               `json:"createdAt,omitzero"`
	RuntimeHandler string                  `json:"runtimeHandler,omitempty"`
}

// OfPod converts s. The result shares lists and pointers with s.
func OfPod(s *runtime.PodStatus) *Pod {
	p := &Pod{}
	for _, sb := range s.Sandboxes {
		p.Sandboxes = append(p.Sandboxes, Sandbox{
			ID: sb.ID, State: sb.State.String(), NetworkMode: sb.NetworkMode.String(), Attempt: sb.Attempt,
			Network: sb.Network, CreatedAt: sb.CreatedAt, RuntimeHandler: sb.RuntimeHandler,
		})
	}
	for _, c := range s.Containers {
		p.Containers = append(p.Containers, ContainerInState{c.State.String(), OfContainer(c)})
	}
	return p
}

// Status returns a pod's recorded status. It drops items with an unknown state or network,
// which a later version has written; their status is then read again.
func (p *Pod) Status(uid types.UID, namespace, name string) *runtime.PodStatus {
	s := &runtime.PodStatus{UID: uid, Name: name, Namespace: namespace}
	for _, sb := range p.Sandboxes {
		state, known := named(sb.State, runtime.SandboxNotReady, runtime.SandboxReady)
		mode, knownMode := named(sb.NetworkMode, runtime.NamespacePod, runtime.NamespaceContainer, runtime.NamespaceNode, runtime.NamespaceTarget)
		if !known || !knownMode {
			continue
		}
		s.Sandboxes = append(s.Sandboxes, runtime.SandboxStatus{
			ID: sb.ID, State: state, NetworkMode: mode, Attempt: sb.Attempt, Network: sb.Network, CreatedAt: sb.CreatedAt, RuntimeHandler: sb.RuntimeHandler,
		})
	}
	for _, c := range p.Containers {
		state, known := named(c.State, runtime.ContainerUnknown, runtime.ContainerCreated, runtime.ContainerRunning, runtime.ContainerExited)
		if known {
			s.Containers = append(s.Containers, c.Container.Status(state))
		}
	}
	return s
}

// named returns the value with that name.
func named[T fmt.Stringer](name string, values ...T) (value T, known bool) {
	for _, v := range values {
		if v.String() == name {
			return v, true
		}
	}
	return value, false
}
