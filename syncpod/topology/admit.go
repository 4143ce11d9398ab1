package topology

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// The reasons of a kubelet for pods that it refuses.
const (
	ReasonAffinity   = "TopologyAffinityError"
	ReasonUnexpected = "UnexpectedAdmissionError"
)

// A Refusal is why a pod is not admitted, with a kubelet's reason and message.
type Refusal struct {
	Reason  string
	Message string
	// Container is empty if the pod's containers are aligned together.
	Container string
	// Resource is the resource that prevents the alignment.
	Resource v1.ResourceName
}

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Admit chooses the affinities of a pod's containers, and lets the providers allocate their resources, container by container, in the order of
// the containers' start. It returns the affinities by container. If it returns a Refusal, the caller must undo what the providers
// have allocated to the pod. A nil pod has no containers.
func (p Policy) Admit(pod *v1.Pod, providers ...Provider) (map[string]Hint, *Refusal) {
	if pod == nil {
		return nil, nil
	}
	affinities := map[string]Hint{}
	whole := p.config.Scope == ScopePod && !p.none()
	var best Choice
	if whole {
		if best = p.choose(pod, nil, providers); !best.Admitted {
			return nil, refused("", best)
		}
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			c := &list[i]
			if !whole {
				if best = p.choose(pod, c, providers); !best.Admitted {
					return nil, refused(c.Name, best)
				}
			}
			affinities[c.Name] = best.Hint
			for _, provider := range providers {
				err := provider.Allocate(pod, c, best.Hint)
				if own := (*Refusal)(nil); errors.As(err, &own) {
					return nil, own
				}
				if err != nil {
					return nil, &Refusal{Reason: ReasonUnexpected, Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err), Container: c.Name}
				}
			}
		}
	}
	return affinities, nil
}

// choose asks the providers for hints, unless the policy needs none.
func (p Policy) choose(pod *v1.Pod, c *v1.Container, providers []Provider) Choice {
	if p.none() {
		return p.Merge()
	}
	var hints []Hints
	for _, provider := range providers {
		hints = append(hints, provider.Hints(pod, c))
	}
	return p.Merge(hints...)
}

func refused(container string, c Choice) *Refusal {
	return &Refusal{Reason: ReasonAffinity, Message: fmt.Sprintf("Resources cannot be allocated with Topology locality: %s", c.Unaligned), Container: container, Resource: c.Unaligned}
}
