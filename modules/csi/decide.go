package csi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A VolumeID identifies a volume on the node, in the form of node.status.volumesInUse:
// kubernetes.io/csi/<driver>^<handle>, or kubernetes.io/local-volume/<name> for a local PersistentVolume.
type VolumeID string

// A Condition is the known result of an operation on a volume.
type Condition string

const (
	// Absent means that the operation has not been done, or has been undone.
	Absent Condition = ""
	// Uncertain means that a call's outcome is unknown, or that the call failed half-way. The volume may be in use.
	Uncertain Condition = "Uncertain"
	// Present means that the operation has been done.
	Present Condition = "Present"
)

// State is each volume's state on the node.
type State map[VolumeID]Volume

// A Volume is one volume's state on the node.
type Volume struct {
	// Staged is NodeStageVolume's result. It is Absent if the volume needs no staging.
	Staged Condition
	// Published is the result of NodePublishVolume for each pod.
	Published map[types.UID]Condition
	// Expanded is the size in bytes to which the node has expanded the file system, zero if it has not.
	Expanded int64
	// Ready means that the driver is registered. Stages and Expands are its capabilities.
	Ready, Stages, Expands bool
	// Attached means that the volume is attached, or needs no attachment.
	Attached bool
	// NotBefore is the time of each failed step's next attempt.
	NotBefore map[StepKey]time.Time
}

// Desired is each volume's desired state on the node.
type Desired map[VolumeID]DesiredVolume

// A DesiredVolume is one volume's desired state.
type DesiredVolume struct {
	// Pods are the pods that need the volume mounted. A pod stays in the list until nothing of it runs.
	Pods []types.UID
	// Exclusive means that only one pod at a time may have the volume (ReadWriteOncePod).
	Exclusive bool
	// Size is the size in bytes that the file system must have, zero if it need not be expanded.
	Size int64
	// Republish are the pods for which NodePublishVolume must be called again.
	Republish []types.UID
}

// An Action is a step's kind.
type Action string

// The actions. Wait means that the next action is blocked.
const (
	Stage     Action = "Stage"
	Publish   Action = "Publish"
	Expand    Action = "Expand"
	Unpublish Action = "Unpublish"
	Unstage   Action = "Unstage"
	Wait      Action = "Wait"
)

// A Reason says why a step is taken or blocked.
type Reason string

// The reasons.
const (
	// PodNeedsVolume means that a pod needs the volume and does not have it.
	PodNeedsVolume Reason = "PodNeedsVolume"
	// OutcomeUnknown means that an earlier call's outcome is unknown.
	OutcomeUnknown Reason = "OutcomeUnknown"
	// DriverAsks means that the driver has CSIDriver.spec.requiresRepublish.
	DriverAsks Reason = "DriverAsks"
	// VolumeHasGrown means that the volume is larger than its file system.
	VolumeHasGrown Reason = "VolumeHasGrown"
	// PodHasEnded means that nothing of the pod runs.
	PodHasEnded Reason = "PodHasEnded"
	// NoPodNeedsVolume means that no pod wants the volume, and that it is mounted for no pod.
	NoPodNeedsVolume Reason = "NoPodNeedsVolume"
	// DriverMissing, NotAttached, UsedByOtherPod and BackOff are the reasons for a
	// Wait.
	DriverMissing  Reason = "DriverMissing"
	NotAttached    Reason = "NotAttached"
	UsedByOtherPod Reason = "UsedByOtherPod"
	BackOff        Reason = "BackOff"
)

// A StepKey identifies a step of a volume. Pod is empty for a step that concerns all pods.
type StepKey struct {
	Action Action
	Pod    types.UID
}

// A Step is the next thing to do with a volume.
type Step struct {
	Volume VolumeID
	StepKey
	Reason Reason
	// For is the action that is blocked, and Until its back-off's end. They are set for Wait only.
	For   Action
	Until time.Time
}

// String returns the step as one line.
func (s Step) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", s.Volume, s.Action)
	if s.For != "" {
		fmt.Fprintf(&b, " to %s", s.For)
	}
	if s.Pod != "" {
		fmt.Fprintf(&b, " for pod %s", s.Pod)
	}
	fmt.Fprintf(&b, ": %s", s.Reason)
	if !s.Until.IsZero() {
		fmt.Fprintf(&b, " until %s", s.Until.UTC().Format(time.RFC3339Nano))
	}
	return b.String()
}

// A Plan is a list of steps. One volume's steps are in order. Steps of different volumes are independent.
type Plan []Step

// String returns one line for each step.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// Decide returns the steps that lead from the state to the desired state. If a step fails, the later steps for the same
// volume must not be taken: call Decide again.
//
// Decide never unstages a volume that may be mounted for a pod, and never unmounts a volume that a pod wants. A pod
// that is missing in desired has ended.
func Decide(now time.Time, state State, desired Desired) Plan {
	ids := map[VolumeID]bool{}
	for id := range state {
		ids[id] = true
	}
	for id := range desired {
		ids[id] = true
	}
	var plan Plan
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		d := decision{now: now, id: id, volume: state[id], want: desired[id]}
		d.run()
		plan = append(plan, d.plan...)
	}
	return plan
}

// A decision computes one volume's steps.
type decision struct {
	now    time.Time
	id     VolumeID
	volume Volume
	want   DesiredVolume
	plan   Plan
	// blocked means that a step on which later steps depend is blocked.
	blocked bool
}

func (d *decision) run() {
	d.unpublish()
	pods := slices.Sorted(slices.Values(d.want.Pods))
	if len(pods) == 0 {
		d.unstage()
		return
	}
	missing := slices.DeleteFunc(slices.Clone(pods), func(pod types.UID) bool { return d.reasonFor(pod) == "" })
	grows := d.volume.Expands && d.want.Size > d.volume.Expanded
	if len(missing) > 0 {
		d.stage()
	}
	for _, pod := range missing {
		d.publish(pod)
	}
	if grows && (len(missing) < len(pods) || !d.blocked) {
		d.add(StepKey{Action: Expand}, VolumeHasGrown)
	}
}

// reasonFor returns why NodePublishVolume must be called for a pod, or "" if it need not.
func (d *decision) reasonFor(pod types.UID) Reason {
	switch condition := d.volume.Published[pod]; {
	case condition == Absent:
		return PodNeedsVolume
	case condition == Uncertain:
		return OutcomeUnknown
	case slices.Contains(d.want.Republish, pod):
		return DriverAsks
	}
	return ""
}

func (d *decision) unpublish() {
	for _, pod := range slices.Sorted(maps.Keys(d.volume.Published)) {
		if d.volume.Published[pod] != Absent && !slices.Contains(d.want.Pods, pod) {
			d.add(StepKey{Unpublish, pod}, PodHasEnded)
		}
	}
}

// unstage adds the Unstage step unless an Unpublish step before it is blocked.
func (d *decision) unstage() {
	if d.volume.Staged != Absent && !d.blocked {
		d.add(StepKey{Action: Unstage}, NoPodNeedsVolume)
	}
}

// stage adds the Stage step unless the volume is certainly staged.
func (d *decision) stage() {
	d.blocked = false // a blocked Unpublish of another pod blocks only Unstage
	if !d.volume.Attached && d.volume.Staged != Present {
		d.wait(StepKey{Action: Stage}, NotAttached, time.Time{})
		return
	}
	if !d.volume.Ready {
		d.wait(StepKey{Action: Stage}, DriverMissing, time.Time{})
		return
	}
	if !d.volume.Stages || d.volume.Staged == Present {
		return
	}
	d.add(StepKey{Action: Stage}, map[bool]Reason{true: OutcomeUnknown, false: PodNeedsVolume}[d.volume.Staged == Uncertain])
}

// publish mounts the volume for a pod.
func (d *decision) publish(pod types.UID) {
	if d.blocked {
		return
	}
	if d.want.Exclusive && d.usedByOther(pod) {
		d.wait(StepKey{Publish, pod}, UsedByOtherPod, time.Time{})
		d.blocked = false
		return
	}
	d.add(StepKey{Publish, pod}, d.reasonFor(pod))
	d.blocked = false // other pods do not depend on this pod
}

// usedByOther reports whether another pod has the volume, may have it, or gets it earlier in the plan.
func (d *decision) usedByOther(pod types.UID) bool {
	for other, condition := range d.volume.Published {
		if other != pod && condition != Absent {
			return true
		}
	}
	return slices.ContainsFunc(d.plan, func(s Step) bool { return s.Action == Publish && s.Pod != pod })
}

// add adds a step, or a Wait if the step must wait.
func (d *decision) add(key StepKey, why Reason) {
	switch until := d.volume.NotBefore[key]; {
	case !d.volume.Ready:
		d.wait(key, DriverMissing, time.Time{})
	case until.After(d.now):
		d.wait(key, BackOff, until)
	default:
		d.plan = append(d.plan, Step{Volume: d.id, StepKey: key, Reason: why})
	}
}

// wait adds a Wait for a step that is blocked.
func (d *decision) wait(key StepKey, why Reason, until time.Time) {
	d.blocked = true
	d.plan = append(d.plan, Step{Volume: d.id, StepKey: StepKey{Wait, key.Pod}, Reason: why, For: cmp.Or(key.Action, Wait), Until: until})
}
