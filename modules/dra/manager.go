package dra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/device"
)

// A Manager prepares the claims of pods, and gives containers their devices. Its methods may be called concurrently, also while
// Run is not running; then no driver is registered.
type Manager struct {
	config      Config
	boot        string
	callTimeout time.Duration
	// streams are the goroutines that read the health of devices.
	streams sync.WaitGroup

	mu sync.Mutex
	// running ends with Run, nil before.
	running context.Context
	claims  map[types.UID]*claim
	// drivers are the registered instances of each driver: a new one serves before the old one leaves.
	drivers map[string][]*driver
	notify  func(types.UID)
}

// A claim is a ResourceClaim that pods use, with its record.
type claim struct {
	// busy has a value while a call changes the record: record is written by the holder of busy, with Manager.mu held.
	busy chan struct{}
	// record is nil before the first pod and after the last one.
	record *record
}

var (
	_ syncpod.Devices    = (*Manager)(nil)
	_ syncpod.PodDevices = (*Manager)(nil)
)

// Allocate returns a container's CDI devices, and its allocation by Config.Devices. It prepares the pod's claims if PreparePod did
// not.
func (m *Manager) Allocate(ctx context.Context, pod *v1.Pod, container *v1.Container) (device.Allocation, error) {
	if err := m.prepare(ctx, pod); err != nil {
		return device.Allocation{}, err
	}
	names, err := m.devicesOf(pod, container)
	if err != nil {
		return device.Allocation{}, err
	}
	given, err := m.config.Devices.Allocate(ctx, pod, container)
	if err != nil || len(names) == 0 {
		return given, err
	}
	all := slices.Clone(given.CDIDevices)
	for _, name := range names {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	given.CDIDevices = all
	return given, nil
}

// Choose chooses the devices of Config.Devices.
func (m *Manager) Choose(ctx context.Context, pod *v1.Pod, container *v1.Container) error {
	return m.config.Devices.Choose(ctx, pod, container)
}

// PreparePod prepares the claims of a pod. It calls no driver for claims that are prepared.
func (m *Manager) PreparePod(ctx context.Context, pod *v1.Pod) error {
	if next, ok := m.config.Devices.(syncpod.PodDevices); ok {
		if err := next.PreparePod(ctx, pod); err != nil {
			return err
		}
	}
	return m.prepare(ctx, pod)
}

// UnpreparePod ends the use of claims by a pod that does not run, and unprepares those that no other pod uses.
func (m *Manager) UnpreparePod(ctx context.Context, pod types.UID) error {
	var err error
	if next, ok := m.config.Devices.(syncpod.PodDevices); ok {
		err = next.UnpreparePod(ctx, pod)
	}
	return errors.Join(err, m.unprepare(ctx, pod))
}

// RemovePod does the same as UnpreparePod, and frees the devices of Config.Devices.
func (m *Manager) RemovePod(ctx context.Context, pod types.UID) error {
	return errors.Join(m.UnpreparePod(ctx, pod), m.config.Devices.RemovePod(ctx, pod))
}

// KeptPods returns the pods that have devices, sorted.
func (m *Manager) KeptPods() ([]types.UID, error) {
	uids, err := m.config.Devices.KeptPods()
	uids = slices.Clone(uids)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.claims {
		if c.record != nil {
			uids = slices.AppendSeq(uids, maps.Keys(c.record.Pods))
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids), err
}

// Notify registers a function that is called for each pod whose devices have changed their health, or whose driver has
// registered.
func (m *Manager) Notify(changed func(types.UID)) {
	m.config.Devices.Notify(changed)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify = changed
}

// recordsOf returns the records of the claims that a pod uses, sorted by UID. The caller holds the lock.
func (m *Manager) recordsOf(pod types.UID) (records []*record) {
	for _, c := range m.claims {
		if c.record == nil {
			continue
		}
		if _, uses := c.record.Pods[pod]; uses {
			records = append(records, c.record)
		}
	}
	slices.SortFunc(records, func(a, b *record) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return records
}

// isPrepared reports whether all claims of a pod are prepared. It needs neither the claims nor the drivers.
func (m *Manager) isPrepared(pod *v1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	records := m.recordsOf(pod.UID)
	has := func(covers func(r *record, u use) bool) bool {
		return slices.ContainsFunc(records, func(r *record) bool { return r.prepared() && covers(r, r.Pods[pod.UID]) })
	}
	for _, name := range usedNames(pod) {
		if !has(func(_ *record, u use) bool { return slices.Contains(u.Names, name) }) && !needsNone(pod, name) {
			return false
		}
	}
	s := pod.Status.ExtendedResourceClaimStatus
	return s == nil || has(func(r *record, u use) bool {
		return r.Name == s.ResourceClaimName && len(u.Extended) >= len(s.RequestMappings)
	})
}

// needsNone reports whether no claim was made for an entry in spec.resourceClaims, because the pod needs none.
func needsNone(pod *v1.Pod, entry string) bool {
	for i := range pod.Spec.ResourceClaims {
		if c := &pod.Spec.ResourceClaims[i]; c.Name == entry {
			name, _, err := claimName(pod, c)
			return err == nil && name == ""
		}
	}
	return false
}

// devicesOf returns the names of a container's CDI devices.
func (m *Manager) devicesOf(pod *v1.Pod, container *v1.Container) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	records := m.recordsOf(pod.UID)
	for _, want := range container.Resources.Claims {
		i := slices.IndexFunc(records, func(r *record) bool { return slices.Contains(r.Pods[pod.UID].Names, want.Name) })
		switch {
		case i >= 0:
			for _, d := range records[i].devices(want.Request) {
				names = append(names, d.CDI...)
			}
		case !needsNone(pod, want.Name):
			return nil, fmt.Errorf("container %q uses the claim %q, which the pod does not have", container.Name, want.Name)
		}
	}
	for _, r := range records {
		for _, e := range r.Pods[pod.UID].Extended {
			if e.Container == container.Name {
				for _, d := range r.devices(e.Request) {
					names = append(names, d.CDI...)
				}
			}
		}
	}
	return names, nil
}

// A namedDevice is a prepared device with its driver.
type namedDevice struct {
	driver string
	preparedDevice
}

// devices returns the devices of a request, or of all requests if it is "", by driver and in the order of the answers.
func (r *record) devices(request string) (devices []namedDevice) {
	for _, name := range slices.Sorted(maps.Keys(r.Drivers)) {
		for _, d := range r.Drivers[name].Devices {
			if d.belongsTo(request) {
				devices = append(devices, namedDevice{name, d})
			}
		}
	}
	return devices
}

// belongsTo reports whether the device was allocated for a request, or for one of its alternatives, request/alternative.
func (d *preparedDevice) belongsTo(request string) bool {
	return request == "" || len(d.Requests) == 0 || slices.ContainsFunc(d.Requests, func(r string) bool {
		return r == request || strings.HasPrefix(r, request+"/")
	})
}
