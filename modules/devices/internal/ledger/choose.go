package ledger

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/podsync/podsync/runtime"
)

// ErrWait marks an error that may resolve itself: the plugin may reconnect, or a device may be freed.
var ErrWait = errors.New("the device may come")

// waiting is an error with its own text that matches ErrWait.
type waiting struct{ text string }

func (w waiting) Error() string   { return w.text }
func (w waiting) Is(e error) bool { return e == ErrWait }

func waitf(format string, args ...any) error { return waiting{fmt.Sprintf(format, args...)} }

// A Choice describes the devices of a resource that a container may get.
type Choice struct {
	// Held are the devices that the container already has. Then there is no choice.
	Held []string
	// Must are devices of earlier init containers, which the container gets first. Free are
	// unallocated devices. Both are sorted.
	Must, Free []string
	// Need is how many devices of Free the container gets.
	Need int
}

// Pick returns the devices that the container gets: preferred devices that are free come first.
func (c Choice) Pick(preferred []string) []string {
	picked := slices.Clone(c.Must)
	free := make(map[string]bool, len(c.Free)) // a plugin chooses how long both lists are
	for _, id := range c.Free {
		free[id] = true
	}
	for _, id := range slices.Concat(preferred, c.Free) {
		if len(picked) < len(c.Must)+c.Need && free[id] {
			picked = append(picked, id)
			free[id] = false
		}
	}
	return picked
}

// Choose returns the choice for a container in a pod that requests n devices of a resource.
func (l *Ledger) Choose(pod *v1.Pod, container, name string, n int, now time.Time) (Choice, error) {
	if held := l.pods[pod.UID][container][name]; len(held) > 0 {
		if len(held) != n {
			return Choice{}, fmt.Errorf("container %q requests %d of %s, and was allocated %d", container, n, name, len(held))
		}
		return Choice{Held: held}, nil
	}
	r := l.resources[name]
	switch {
	case l.expired(r, now):
		return Choice{}, fmt.Errorf("no plugin has registered %s", name)
	case !r.connected:
		return Choice{}, waitf("the plugin of %s has not registered yet", name)
	}
	var c Choice
	taken, reusable := l.taken(name), l.reusable(pod, container, name)
	for _, d := range r.healthy() {
		switch {
		case reusable[d.ID] && len(c.Must) < n:
			c.Must = append(c.Must, d.ID)
		case !taken[d.ID]:
			c.Free = append(c.Free, d.ID)
		}
	}
	c.Need = n - len(c.Must)
	if len(c.Free) < c.Need {
		return Choice{}, waiting{unavailable(name, c.Need, len(c.Free)).Error()}
	}
	return c, nil
}

// taken returns the devices of a resource that containers hold.
func (l *Ledger) taken(name string) map[string]bool {
	taken := map[string]bool{}
	for _, containers := range l.pods {
		for _, held := range containers {
			for _, id := range held[name] {
				taken[id] = true
			}
		}
	}
	return taken
}

// reusable returns the devices of init containers that end before the container starts, except
// those held by a container that runs at the same time.
func (l *Ledger) reusable(pod *v1.Pod, container, name string) map[string]bool {
	free := map[string]bool{}
	for _, c := range pod.Spec.InitContainers {
		if c.Name == container {
			break
		}
		if !runtime.IsSidecar(&c) {
			for _, id := range l.pods[pod.UID][c.Name][name] {
				free[id] = true
			}
		}
	}
	for other, held := range l.pods[pod.UID] {
		if !endsFirst(pod, other) {
			for _, id := range held[name] {
				delete(free, id)
			}
		}
	}
	return free
}

// endsFirst reports whether a container ends before the containers after it start.
func endsFirst(pod *v1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c v1.Container) bool { return c.Name == container && !runtime.IsSidecar(&c) })
}

// Ready returns why a container cannot be started with the devices it holds. It returns nil if all
// were healthy in the last report from their plugins since the agent's start. While a plugin has not reported, present
// decides: it means that the devices are on the node.
func (l *Ledger) Ready(pod *v1.Pod, container string, present bool) error {
	held := l.pods[pod.UID][container]
	for _, name := range slices.Sorted(maps.Keys(held)) {
		r := l.resources[name]
		if r == nil || !r.reported {
			if present {
				continue
			}
			return waitf("the plugin of %s has not registered yet, and container %q has its devices %v", name, container, held[name])
		}
		for _, id := range held[name] {
			if !r.devices[id].Healthy {
				return waitf("device %s of %s, which container %q has, is not healthy", id, name, container)
			}
		}
	}
	return nil
}
