package eviction

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// State is what is known of a node.
type State struct {
	// Readings have at most one of each signal. One that could not be read is not there.
	Readings []Reading
	Layout   Layout
	// Pods are those that run, but for those in Ending. One that is terminating for another reason
	// may be evicted: its grace period gets shorter.
	Pods []Candidate
	// Ending are pods that were evicted and have not ended. As long as there is one no
	// other has to go for what the node is short of.
	Ending []types.UID
	// Reclaimed says that all that Decision.Reclaim asked for was removed, and that the
	// readings are later.
	Reclaimed bool
	// Memory is that of the Decision before, zero for the first.
	Memory Memory
}

// Memory is what one Decision tells the next.
type Memory struct {
	met      []Met
	pressure [conditions]pressure
	// acted is when what the last eviction followed from was read.
	acted time.Time
}

// Decision is what follows from a State.
type Decision struct {
	// Conditions are MemoryPressure, DiskPressure and PIDPressure, without a time of the
	// last heartbeat.
	Conditions []v1.NodeCondition
	// Met are the thresholds that are met, in their order.
	Met []Met
	// Problems are why thresholds were not looked at.
	Problems []Problem
	// Reclaim is what is to be removed before a pod has to go, in this order. If there is
	// any, nobody is evicted: read again, and decide with State.Reclaimed.
	Reclaim []Reclaim
	// Evict are the pods that have to go: one for what the node is short of, or all that
	// exceed limits of their own.
	Evict []Eviction
	// Memory is for the next State.
	Memory Memory

	// due is the threshold that pods go for, ranked the order in which they would.
	due    *Met
	ranked []Candidate
	// waits is why nobody goes although a threshold is due.
	waits string
}

// Met is a threshold that is met.
type Met struct {
	Threshold
	// Reading is what it was last seen by.
	Reading Reading
	// Since is when it was first seen to be met.
	Since time.Time
	// Due says that it was for long enough.
	Due bool
}

// Reclaim is something that can be removed without a loss to any pod.
type Reclaim uint8

// What can be removed.
const (
	// DeadContainers are containers that have ended, with their logs.
	DeadContainers Reclaim = iota
	// UnusedImages are images that no container uses.
	UnusedImages
)

// String returns what it is in two words.
func (r Reclaim) String() string {
	if r == UnusedImages {
		return "unused images"
	}
	return "dead containers"
}

// Decide says what follows from a state. A pod that exceeds a limit of its own goes first.
// Else, if a threshold is met for as long as it has to be, what nobody needs is to be
// removed, and if it is met still one pod goes, the first in the order of Rank that is not
// critical and of which something is known. Nothing follows from what was not read, is too
// old or cannot be.
func Decide(r Rules, s State, now time.Time) Decision {
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

// meet finds the thresholds that are met.
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

// actedBefore returns when what the last eviction followed from was read, zero if that lies
// so far ahead that the clock was set back since.
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

// relieve says what has to go because the node is short of something.
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
		if !isCritical(p.Pod) && p.Usage != nil {
			d.Evict = []Eviction{pressed(p, d.due, r.MaxPodGrace)}
			d.Memory.acted = d.due.Reading.Time
			return
		}
	}
	d.waits = "there is no pod that may go"
}

// reclaims is what can be removed from the file system of a signal.
func reclaims(s Signal, on Layout) []Reclaim {
	images := s == ImageFSAvailable || s == ImageFSInodesFree
	containers := s == ContainerFSAvailable || s == ContainerFSInodesFree
	switch {
	case !s.OfDisk():
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
