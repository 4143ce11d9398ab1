package config

import (
	"fmt"
	"maps"
	"slices"
	"time"

	kubelet "k8s.io/kubelet/config/v1beta1"

	"github.com/podsync/podsync/syncpod/eviction"
)

// Eviction returns the eviction policy, from the kubelet's eviction* fields,
// mergeDefaultEvictionSettings, localStorageCapacityIsolation, cgroupsPerQOS and enforceNodeAllocatable. It ignores
// thresholds of containerfs, as a kubelet does. If the cgroup of all pods is limited, the hard threshold of
// memory.available also applies to what is available below that limit.
func Eviction(c *kubelet.KubeletConfiguration) (eviction.Policy, error) {
	p := eviction.Policy{
		Hard: signals(c.EvictionHard), Soft: signals(c.EvictionSoft), MinimumReclaim: signals(c.EvictionMinimumReclaim),
		PressureTransitionPeriod: c.EvictionPressureTransitionPeriod.Duration,
		MaxPodGracePeriod:        time.Duration(c.EvictionMaxPodGracePeriod) * time.Second,
		IgnoreStorageLimits:      c.LocalStorageCapacityIsolation != nil && !*c.LocalStorageCapacityIsolation,
	}
	if p.Hard != nil && c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings {
		merged := eviction.DefaultHard()
		maps.Copy(merged, p.Hard)
		p.Hard = merged
	}
	if LimitsPods(c) {
		p = withAllocatable(p)
	}
	for signal, text := range signals(c.EvictionSoftGracePeriod) {
		grace, err := time.ParseDuration(text)
		if err != nil || grace < 0 {
			return p, fmt.Errorf("evictionSoftGracePeriod: %s is %q, want a time such as 1m30s", signal, text)
		}
		if p.SoftGracePeriod == nil {
			p.SoftGracePeriod = map[eviction.Signal]time.Duration{}
		}
		p.SoftGracePeriod[signal] = grace
	}
	if _, err := eviction.ParsePolicy(p); err != nil {
		return p, fmt.Errorf("evictionHard and the fields with it: %w", err)
	}
	return p, nil
}

// LimitsPods reports whether the cgroup of all pods is limited to what is allocatable (cgroupsPerQOS,
// enforceNodeAllocatable). The configuration must have its defaults, as Load returns it.
func LimitsPods(c *kubelet.KubeletConfiguration) bool {
	return *c.CgroupsPerQOS && (c.EnforceNodeAllocatable == nil || slices.Contains(c.EnforceNodeAllocatable, "pods"))
}

// withAllocatable adds the threshold of memory.available for allocatableMemory.available, unless that has one.
func withAllocatable(p eviction.Policy) eviction.Policy {
	if p.Hard == nil {
		p.Hard = eviction.DefaultHard()
	}
	value, ok := p.Hard[eviction.MemoryAvailable]
	if _, has := p.Hard[eviction.AllocatableMemoryAvailable]; has || !ok {
		return p
	}
	p.Hard[eviction.AllocatableMemoryAvailable] = value
	if reclaim, ok := p.MinimumReclaim[eviction.MemoryAvailable]; ok {
		p.MinimumReclaim[eviction.AllocatableMemoryAvailable] = reclaim
	}
	return p
}

// ignored reports whether a signal has no thresholds of its own.
func ignored(s eviction.Signal) bool {
	return s == eviction.ContainerFSAvailable || s == eviction.ContainerFSInodesFree
}

// signals converts a field to a map by signal; nil stays nil.
func signals(field map[string]string) map[eviction.Signal]string {
	if field == nil {
		return nil
	}
	all := map[eviction.Signal]string{}
	for name, value := range field {
		if s := eviction.Signal(name); !ignored(s) {
			all[s] = value
		}
	}
	return all
}

// ignoredSignals returns warnings for thresholds that have no effect.
func ignoredSignals(c *kubelet.KubeletConfiguration) (warnings []string) {
	for _, f := range []struct {
		name string
		of   map[string]string
	}{{"evictionHard", c.EvictionHard}, {"evictionSoft", c.EvictionSoft}} {
		for _, signal := range slices.Sorted(maps.Keys(f.of)) {
			if ignored(eviction.Signal(signal)) {
				warnings = append(warnings, f.name+": "+signal+" is set, and not heeded")
			}
		}
	}
	return warnings
}
