package ledger

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// Needs returns how many devices a container requests, by resource, of the resources that plugins
// have registered. Resources without a domain, such as cpu, are never among them.
func (l *Ledger) Needs(c *v1.Container) map[string]int {
	needs := map[string]int{}
	for name, quantity := range c.Resources.Limits {
		if n := quantity.Value(); n > 0 && strings.Contains(string(name), "/") && l.IsKnown(string(name)) {
			needs[string(name)] = int(min(n, math.MaxInt32))
		}
	}
	return needs
}

// demand returns the maximum number of devices that the pod's containers request at the same time.
func (l *Ledger) demand(pod *v1.Pod) map[string]int {
	most, running := map[string]int{}, map[string]int{}
	add := func(c *v1.Container, stays bool) {
		for name, n := range l.Needs(c) {
			most[name] = max(most[name], running[name]+n)
			if stays {
				running[name] += n
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		add(&pod.Spec.InitContainers[i], runtime.IsSidecar(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], true)
	}
	return most
}

// Fits returns why there are too few devices for a pod next to the given pods, nil if there are enough. Devices held by
// other pods count as free, because they are freed soon. The devices of a disconnected plugin count during the grace
// period.
func (l *Ledger) Fits(pod *v1.Pod, activePods []*v1.Pod, now time.Time) error {
	demand := l.demand(pod)
	for _, name := range slices.Sorted(maps.Keys(demand)) {
		need := demand[name] - len(l.heldBy(pod.UID, name))
		if need <= 0 {
			continue
		}
		r := l.resources[name]
		if l.expired(r, now) || len(r.healthy()) == 0 {
			return fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", name)
		}
		if free := max(0, l.free(name, pod, activePods)); free < need {
			return unavailable(name, need, free)
		}
	}
	return nil
}

// unavailable returns an error with the kubelet's text.
func unavailable(name string, requested, available int) error {
	return fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", name, requested, available)
}

// free returns how many devices are left for a pod after all other given pods have theirs.
func (l *Ledger) free(name string, pod *v1.Pod, activePods []*v1.Pod) int {
	taken, pending := l.heldBy(pod.UID, name), 0
	for _, other := range activePods {
		if other.UID == pod.UID {
			continue
		}
		held := l.heldBy(other.UID, name)
		pending += max(0, l.demand(other)[name]-len(held))
		maps.Copy(taken, held)
	}
	free := 0
	for _, d := range l.resources[name].healthy() {
		if !taken[d.ID] {
			free++
		}
	}
	return free - pending
}

// heldBy returns the devices of a resource that the pod's containers hold.
func (l *Ledger) heldBy(pod types.UID, name string) map[string]bool {
	all := map[string]bool{}
	for _, held := range l.pods[pod] {
		for _, id := range held[name] {
			all[id] = true
		}
	}
	return all
}
