// Package ledger records the devices of a node and the containers that hold them, and decides which
// devices a container gets. It is pure: it uses no clock and no lock, and makes no calls.
//
//	ledger.go     Ledger: what plugins report, and what containers hold
//	choose.go     which devices a container gets
//	fits.go       whether there are enough for a pod
package ledger

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Device is a device as its plugin reports it.
type Device struct {
	ID      string
	Healthy bool
	// NUMANodes are the NUMA nodes that are close to the device.
	NUMANodes []int64
}

// Held are the IDs of devices by their resource's name.
type Held map[string][]string

// A resourceState is a plugin's last report, which may have disconnected.
type resourceState struct {
	devices map[string]Device
	// connected means that the plugin is connected. reported means that it has reported devices since the agent's
	// start.
	connected, reported bool
	// disconnectedAt is the time when the plugin disconnected.
	disconnectedAt time.Time
	// size is the sum of the sizes of the devices.
	size int
}

// deviceSize is what a device counts for in addition to its ID in JSON: about its memory.
const deviceSize = 64

// Size returns how many bytes a device counts for.
func (d Device) Size() int {
	text, _ := json.Marshal(d.ID) // a string has no error
	return len(text) + deviceSize
}

// A Ledger is one node's devices. It is not for concurrent use.
type Ledger struct {
	grace     time.Duration
	resources map[string]*resourceState
	pods      map[types.UID]map[string]Held
}

// New returns an empty Ledger. The devices of a disconnected plugin no longer count after the grace
// period.
func New(grace time.Duration) *Ledger {
	return &Ledger{grace: grace, resources: map[string]*resourceState{}, pods: map[types.UID]map[string]Held{}}
}

// Restore adds a resource of an earlier agent. Its plugin counts as disconnected since now.
func (l *Ledger) Restore(name string, ids []string, now time.Time) {
	r := &resourceState{devices: map[string]Device{}, disconnectedAt: now}
	for _, id := range ids {
		d := Device{ID: id, Healthy: true}
		r.devices[id], r.size = d, r.size+d.Size()
	}
	l.resources[name] = r
}

// Take records that a container holds devices.
func (l *Ledger) Take(pod types.UID, container string, held Held) {
	containers := l.pods[pod]
	if containers == nil {
		containers = map[string]Held{}
		l.pods[pod] = containers
	}
	if containers[container] == nil {
		containers[container] = Held{}
	}
	maps.Copy(containers[container], held)
}

// Drop records that a container holds no devices.
func (l *Ledger) Drop(pod types.UID, container string) {
	delete(l.pods[pod], container)
	if len(l.pods[pod]) == 0 {
		delete(l.pods, pod)
	}
}

// Release records that no container in a pod holds devices.
func (l *Ledger) Release(pod types.UID) { delete(l.pods, pod) }

// Held returns a pod's container devices, by container name. The caller must not modify it.
func (l *Ledger) Held(pod types.UID) map[string]Held { return l.pods[pod] }

// Register records a resource whose plugin has not reported a device yet. From then on no container that requests the
// resource starts without a device, whether or not the plugin ever reports one.
func (l *Ledger) Register(name string) {
	if l.resources[name] == nil {
		l.resources[name] = &resourceState{connected: true}
	}
}

// Report records the devices of a resource that its plugin reports. It returns the pods that hold a
// device whose health has changed.
func (l *Ledger) Report(name string, devices []Device) []types.UID {
	return l.change(name, func(r *resourceState) {
		r.devices, r.connected, r.reported, r.size = map[string]Device{}, true, true, 0
		for _, d := range devices {
			r.devices[d.ID], r.size = d, r.size+d.Size()
		}
	})
}

// Room returns for how many bytes a resource may have devices: each resource has a share of its own, and all together
// have a pool for what exceeds the shares, so that one plugin with many names takes no share of another's.
func (l *Ledger) Room(name string, share, pool int) int {
	for other, r := range l.resources {
		if other != name {
			pool -= max(r.size-share, 0)
		}
	}
	return share + max(pool, 0)
}

// Disconnect records that a plugin has disconnected. It returns the pods that hold its devices.
func (l *Ledger) Disconnect(name string, now time.Time) []types.UID {
	if r := l.resources[name]; r == nil || !r.connected {
		return nil
	}
	return l.change(name, func(r *resourceState) { r.connected, r.disconnectedAt = false, now })
}

// change applies a change to a resource, and returns the pods that hold a device whose health
// changed.
func (l *Ledger) change(name string, change func(*resourceState)) []types.UID {
	r := l.resources[name]
	if r == nil {
		r = &resourceState{}
		l.resources[name] = r
	}
	before := *r
	change(r)
	var changed []types.UID
	for uid, containers := range l.pods {
		for _, held := range containers {
			differs := func(id string) bool { return before.health(id) != r.health(id) }
			if slices.ContainsFunc(held[name], differs) && !slices.Contains(changed, uid) {
				changed = append(changed, uid)
			}
		}
	}
	slices.Sort(changed)
	return changed
}

func (r *resourceState) health(id string) v1.ResourceHealthStatus {
	switch {
	case r == nil || !r.connected:
		return v1.ResourceHealthStatusUnknown
	case r.devices[id].Healthy:
		return v1.ResourceHealthStatusHealthy
	}
	return v1.ResourceHealthStatusUnhealthy
}

// Health returns a device's health: unknown while its plugin is disconnected.
func (l *Ledger) Health(name, id string) v1.ResourceHealthStatus { return l.resources[name].health(id) }

// IsKnown reports whether a plugin has registered the resource.
func (l *Ledger) IsKnown(name string) bool {
	if l.resources[name] != nil {
		return true
	}
	for _, containers := range l.pods {
		for _, held := range containers {
			if len(held[name]) > 0 {
				return true
			}
		}
	}
	return false
}

// expired reports whether the plugin has been disconnected for longer than the grace period.
func (l *Ledger) expired(r *resourceState, now time.Time) bool {
	return r == nil || !r.connected && now.Sub(r.disconnectedAt) > l.grace
}

// Names returns the resources, sorted.
func (l *Ledger) Names() []string { return slices.Sorted(maps.Keys(l.resources)) }

// Device returns a device as its plugin reported it last. If the plugin did not report it, only the ID is set.
func (l *Ledger) Device(name, id string) Device {
	if r := l.resources[name]; r != nil && r.reported {
		if d, ok := r.devices[id]; ok {
			return d
		}
	}
	return Device{ID: id}
}

// Healthy returns the healthy devices, allocated or not, sorted by ID; none while the plugin is
// disconnected.
func (l *Ledger) Healthy(name string) []Device {
	if r := l.resources[name]; r != nil && r.connected {
		return r.healthy()
	}
	return nil
}

func (r *resourceState) healthy() []Device {
	var all []Device
	for _, id := range slices.Sorted(maps.Keys(r.devices)) {
		if r.devices[id].Healthy {
			all = append(all, r.devices[id])
		}
	}
	return all
}

// Count returns the number of devices of a resource, and how many of them are allocatable. Both are 0 until the plugin has
// reported its devices to this agent.
func (l *Ledger) Count(name string, now time.Time) (capacity, allocatable int) {
	r := l.resources[name]
	if !r.reported || l.expired(r, now) {
		return 0, 0
	}
	return len(r.devices), len(l.Healthy(name))
}

// Snapshot returns the state for the next agent: the device IDs of each resource whose grace period
// has not ended.
func (l *Ledger) Snapshot(now time.Time) map[string][]string {
	known := map[string][]string{}
	for name, r := range l.resources {
		if !l.expired(r, now) {
			known[name] = slices.Sorted(maps.Keys(r.devices))
		}
	}
	return known
}
