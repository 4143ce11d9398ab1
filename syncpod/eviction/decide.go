package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/runtime"
)

// State describes a node when it decides.
type State struct {
	// Readings have at most one entry for each signal. An unreadable signal has none.
	Readings []Reading
	Layout   Layout
	// Pods are the running pods, without those in Ending. A pod that is terminating for another
	// reason may be evicted, which shortens its grace period.
	Pods []Candidate
	// Ending are pods that were evicted and have not ended. While there is one, no other pod is
	// evicted for pressure on the node.
	Ending []types.UID
	// Reclaimed means that everything in the last Decision.Reclaim was removed, and that the
	// readings are later.
	Reclaimed bool
	// Memory is the previous Decision's, zero for the first.
	Memory Memory
}

// Memory carries state from one Decision to the next.
type Memory struct {
	met      []Met
	pressure [conditions]pressure
	// acted is when the reading was taken that caused the last eviction.
	acted time.Time
}

// Decision is Decide's result.
type Decision struct {
	// Conditions are MemoryPressure, DiskPressure and PIDPressure, without the last
	// heartbeat's time.
	Conditions []v1.NodeCondition
	// Met are the thresholds that are met, in their order.
	Met []Met
	// Problems are the thresholds that could not be checked.
	Problems []Problem
	// Reclaim lists what to remove before a pod is evicted, in order. If it is not empty, no pod is
	// evicted: remove these, read again, and decide with State.Reclaimed.
	Reclaim []Reclaim
	// Evict lists the pods to evict: one for pressure on the node, or all that exceed their own
	// limits.
	Evict []Eviction
	// Memory is for the next State.
	Memory Memory

	// due is the threshold for which pods are evicted, ranked the eviction order.
	due    *Met
	ranked []Candidate
	// waits is why no pod is evicted although a threshold is due.
	waits string
}

// Met is a threshold that is met.
type Met struct {
	Threshold
	// Reading is the last reading that met the threshold.
	Reading Reading
	// Since is when the threshold was first met.
	Since time.Time
	// Due means that it has been met for its grace period.
	Due bool
}

// Reclaim is something that can be removed without a loss to any pod.
type Reclaim uint8

// The resource kinds to reclaim.
const (
	// DeadContainers are exited containers, with their logs.
	DeadContainers Reclaim = iota
	// UnusedImages are images that no container uses.
	UnusedImages
)

// String describes the reclaim in two words.
func (r Reclaim) String() string {
	if r == UnusedImages {
		return "unused images"
	}
	return "dead containers"
}

// Decide returns what follows from a state. A pod that exceeds its own limit is evicted first.
// Otherwise, if a threshold has been met for its grace period, unused resources are reclaimed, and
// if it is still met one pod is evicted: the first in Rank's order that is not critical and whose
// usage is known. Missing, outdated or impossible readings have no consequence. In a kubelet this is
// synchronize of the eviction manager, without its measurements and its stops.
func Decide(r Rules, s State, now time.Time) Decision {
	s.Pods = withPods(s.Pods)
	d := Decision{}
	d.meet(r, &s, now)
	d.Memory = Memory{met: d.Met, acted: s.Memory.actedBefore(now)}
	d.press(r, &s, now)
	if r.StorageLimits {
		if d.Evict = exceeding(&s); len(d.Evict) > 0 {
			return d
		}
	}
	d.relieve(r, &s)
	return d
}

// meet determines which thresholds are met.
func (d *Decision) meet(r Rules, s *State, now time.Time) {
	for _, t := range r.Thresholds {
		reading, fault := s.readable(t, now)
		if fault != "" {
			d.Problems = append(d.Problems, Problem{t, fault})
			continue
		}
		before := s.Memory.of(t)
		goal := t.Value.Of(reading.Capacity)
		if before != nil && before.Due {
			goal = min(plus(goal, new(t.Reclaim.Of(reading.Capacity))), reading.Capacity)
		}
		if reading.Available >= goal {
			continue
		}
		met := Met{Threshold: t, Reading: *reading, Since: now}
		if before != nil && !before.Since.After(now) {
			met.Since = before.Since
		}
		met.Due = now.Sub(met.Since) >= t.Grace
		d.Met = append(d.Met, met)
	}
}

// actedBefore returns when the reading was taken that caused the last eviction. It returns zero
// if that time is so far in the future that the clock must have been set back.
func (m *Memory) actedBefore(now time.Time) time.Time {
	if m.acted.After(now.Add(MaxAge)) {
		return time.Time{}
	}
	return m.acted
}

func (m *Memory) of(t Threshold) *Met {
	for i := range m.met {
		if m.met[i].Threshold == t {
			return &m.met[i]
		}
	}
	return nil
}

// relieve decides which resources are reclaimed, or which pod is evicted, because the node is under
// pressure.
func (d *Decision) relieve(r Rules, s *State) {
	at := slices.IndexFunc(d.Met, func(m Met) bool { return m.Due })
	if at < 0 {
		return
	}
	d.due = &d.Met[at]
	d.ranked = Rank(s.Pods, d.due.Signal, s.Layout)
	switch {
	case len(s.Ending) > 0:
		d.waits = "a pod that was evicted has not ended"
		return
	case !d.due.Reading.Time.After(d.Memory.acted):
		d.waits = "nothing was read since a pod was evicted"
		return
	case !s.Reclaimed:
		if d.Reclaim = reclaims(d.due.Signal, s.Layout); len(d.Reclaim) > 0 {
			return
		}
	}
	for _, p := range d.ranked {
		if !runtime.IsCritical(p.Pod) && p.Usage != nil {
			d.Evict = []Eviction{pressed(p, d.due, r.MaxPodGrace)}
			d.Memory.acted = d.due.Reading.Time
			return
		}
	}
	d.waits = "there is no pod that may go"
}

// reclaims returns the resources that can be removed from a signal's file system.
func reclaims(s Signal, on Layout) []Reclaim {
	images := s == ImageFSAvailable || s == ImageFSInodesFree
	containers := s == ContainerFSAvailable || s == ContainerFSInodesFree
	switch {
	case !OfDisk(s):
		return nil
	case on == OneDisk, on == ImageDisk && (images || containers):
		return []Reclaim{DeadContainers, UnusedImages}
	case on == ImageDisk:
		return nil
	case images:
		return []Reclaim{UnusedImages}
	}
	return []Reclaim{DeadContainers}
}
