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

// A Condition is what the node knows of an operation on a volume.
type Condition string

const (
	// Absent: it has not been done, or it has been undone.
	Absent Condition = ""
	// Uncertain: a call was made whose outcome is unknown, or it has failed half-way. The volume may be in use.
	Uncertain Condition = "Uncertain"
	// Present: it has been done.
	Present Condition = "Present"
)

// State is what the node has of each volume.
type State map[VolumeID]Volume

// A Volume is what the node has of one volume.
type Volume struct {
	// Staged says whether NodeStageVolume has prepared the volume for the node. A volume that needs no stage is Absent.
	Staged Condition
	// Published says for each pod whether NodePublishVolume has mounted the volume for it.
	Published map[types.UID]Condition
	// Expanded is the number of bytes to which the node has expanded the volume, zero if it has not.
	Expanded int64
	// Ready: the driver of the volume is registered. Stages and Expands: it has these capabilities.
	Ready, Stages, Expands bool
	// Attached: the volume needs no attachment, or it is attached.
	Attached bool
	// NotBefore is when steps that failed may be tried again.
	NotBefore map[StepKey]time.Time
}

// Desired is what the pods of the node want of each volume.
type Desired map[VolumeID]Want

// A Want is what pods want of one volume.
type Want struct {
	// Pods want the volume mounted. A pod stays here until nothing of it runs.
	Pods []types.UID
	// Exclusive: only one pod at a time may have the volume (ReadWriteOncePod).
	Exclusive bool
	// Size is the number of bytes that the file system must have, zero if it need not be expanded.
	Size int64
	// Republish are the pods for which the driver wants NodePublishVolume to be called again.
	Republish []types.UID
}

// An Action is the kind of a step.
type Action string

// The actions. Wait means that nothing can be done for a pod now.
const (
	Stage     Action = "Stage"
	Publish   Action = "Publish"
	Expand    Action = "Expand"
	Unpublish Action = "Unpublish"
	Unstage   Action = "Unstage"
	Wait      Action = "Wait"
)

// A Reason is why a step is taken.
type Reason string

// The reasons.
const (
	// PodNeedsVolume: a pod needs the volume and does not have it.
	PodNeedsVolume Reason = "PodNeedsVolume"
	// OutcomeUnknown: an earlier call may have been carried out or not.
	OutcomeUnknown Reason = "OutcomeUnknown"
	// DriverAsks: the driver has CSIDriver.spec.requiresRepublish.
	DriverAsks Reason = "DriverAsks"
	// VolumeHasGrown: the volume is larger than its file system.
	VolumeHasGrown Reason = "VolumeHasGrown"
	// PodHasEnded: nothing of the pod runs.
	PodHasEnded Reason = "PodHasEnded"
	// NoPodNeedsVolume: no pod wants the volume, and it is certainly mounted for none.
	NoPodNeedsVolume Reason = "NoPodNeedsVolume"
	// DriverMissing, NotAttached, UsedByOtherPod and BackOff are why a step waits.
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
	// For is the action that waits, and Until when its back-off ends. They are set for a Wait.
	For   Action
	Until time.Time
}

// String returns one line.
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

// A Plan is a list of steps. The steps of one volume are in order. Steps of different volumes are independent.
type Plan []Step

// String returns one line for each step.
func (p Plan) String() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(s.String() + "\n")
	}
	return b.String()
}

// Decide returns the steps from what the node has to what pods want. If a step fails, the steps after it for the same
// volume must not be taken: Decide must be called again.
//
// No volume is unstaged that may be mounted for a pod, and none unmounted that a pod wants. A pod that is missing in
// desired has ended.
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

// A decision is that on one volume.
type decision struct {
	now    time.Time
	id     VolumeID
	volume Volume
	want   Want
	plan   Plan
	// held: a step that others depend on cannot be taken.
	held bool
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
	if grows && (len(missing) < len(pods) || !d.held) {
		d.add(StepKey{Action: Expand}, VolumeHasGrown)
	}
}

// reasonFor returns why a pod needs NodePublishVolume, empty if it does not.
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

// unstage undoes the stage once no pod can have the volume: an Unpublish before it has succeeded.
func (d *decision) unstage() {
	if d.volume.Staged != Absent && !d.held {
		d.add(StepKey{Action: Unstage}, NoPodNeedsVolume)
	}
}

// stage prepares the volume for the node, unless it is certain that this has been done.
func (d *decision) stage() {
	d.held = false // an Unpublish for another pod that waits holds up the end of the volume alone
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
	if d.held {
		return
	}
	if d.want.Exclusive && d.usedBeside(pod) {
		d.wait(StepKey{Publish, pod}, UsedByOtherPod, time.Time{})
		d.held = false
		return
	}
	d.add(StepKey{Publish, pod}, d.reasonFor(pod))
	d.held = false // other pods do not depend on this one
}

// usedBeside reports whether another pod has the volume, may have it, or gets it before.
func (d *decision) usedBeside(pod types.UID) bool {
	for other, condition := range d.volume.Published {
		if other != pod && condition != Absent {
			return true
		}
	}
	return slices.ContainsFunc(d.plan, func(s Step) bool { return s.Action == Publish && s.Pod != pod })
}

// add adds a step, or what it waits for.
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

// wait adds that a step cannot be taken now.
func (d *decision) wait(key StepKey, why Reason, until time.Time) {
	d.held = true
	d.plan = append(d.plan, Step{Volume: d.id, StepKey: StepKey{Wait, key.Pod}, Reason: why, For: cmp.Or(key.Action, Wait), Until: until})
}
