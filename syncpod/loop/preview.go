package loop

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/actions"
	"github.com/podsync/podsync/internal/order"
	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime"
	"github.com/podsync/podsync/syncpod/source"
	"github.com/podsync/podsync/syncpod/store"
)

// A Preview is what a Loop would do if one of its sources delivered a snapshot. It has a form as JSON.
type Preview struct {
	// Pods are all pods, sorted by namespace, name and UID.
	Pods []PodEffect `json:"pods"`
	// Objects means that ConfigMaps or Secrets change, so that volumes of running pods are updated.
	Objects bool `json:"objects,omitempty"`
	// Errors and Warnings are those of the snapshot.
	Errors   []string `json:"errors,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// A PodEffect is what happens to a pod, and why.
type PodEffect struct {
	Namespace  string            `json:"namespace"`
	Name       string            `json:"name"`
	UID        types.UID         `json:"uid"`
	Effect     actions.Effect    `json:"effect"`
	Reason     string            `json:"reason"`
	Containers []ContainerEffect `json:"containers,omitempty"`
}

// A ContainerEffect is what happens to a container, and why.
type ContainerEffect struct {
	Name   string         `json:"name"`
	Effect actions.Effect `json:"effect"`
	Reason string         `json:"reason"`
}

// Changes reports whether something happens. Waits do not count.
func (p Preview) Changes() bool {
	return p.Objects || slices.ContainsFunc(p.Pods, func(pod PodEffect) bool { return pod.Effect > actions.Waits })
}

// Preview returns what the Loop would do if the named source delivered this snapshot now: each container's next step, as
// the decision on its pod would have it. It acts on nothing. It uses the runtime's last statuses, and does not ask
// Config.Admission.
func (l *Loop) Preview(name string, s source.Snapshot) Preview {
	next := l.sources.with(name, s).desired()
	pods := l.watcher.Pods()
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	known := map[types.UID]*knownPod{}
	for _, p := range pods {
		known[p.UID] = &knownPod{name: desiredName{p.Source, p.Namespace, p.Name}, status: l.table.lastStatus(p.UID)}
	}
	for uid, wp := range l.table.pods {
		k := &knownPod{
			name: desiredName{wp.source, wp.pod.Namespace, wp.pod.Name}, wanted: true, status: l.table.lastStatus(uid),
			stopping: wp.desired == nil || l.workers.State(uid).Phase == podworkers.Terminating, over: l.table.ended(uid),
		}
		if in, ok := l.syncer.NextInput(uid, k.status); ok {
			k.input = in
		}
		known[uid] = k
	}
	return preview(known, next, s)
}

// PreviewStored returns the same for the pods that an agent has recorded, all of this source, if the next agent has only
// this source. It knows no back-offs and no probe results.
func PreviewStored(statuses []store.Status, name string, s source.Snapshot) Preview {
	known := map[types.UID]*knownPod{}
	for _, r := range statuses {
		known[r.UID] = &knownPod{
			name: desiredName{name, r.Namespace, r.Name}, wanted: true, status: r.Runtime, over: runtime.IsTerminal(r.Status.Phase),
		}
	}
	fs := &feeds{all: []*feed{{Source: named(name)}}}
	return preview(known, fs.with(name, s).desired(), s)
}

// with returns a copy of the sources in which the named one has delivered another snapshot.
func (fs *feeds) with(name string, s source.Snapshot) *feeds {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	trial := &feeds{log: fs.log}
	for _, f := range fs.all {
		copied := *f
		if f.Name() == name {
			copied.snapshot, copied.delivered = copied.computable(s), time.Now()
			if copied.trust.doubted() {
				copied.trust.judge(copied.names(), copied.ready(), copied.trust.left)
			}
		}
		trial.all = append(trial.all, &copied)
	}
	return trial
}

// named is a source of which only the name is known.
type named string

func (n named) Name() string { return string(n) }

func (n named) Run(context.Context, func(source.Snapshot)) error { return nil }

// A knownPod is a pod of the node, as a preview needs it.
type knownPod struct {
	name desiredName
	// status is the last one of the runtime, nil if it is unknown.
	status *runtime.PodStatus
	// input is that of the last decision, zero if there was none.
	input actions.Input
	// wanted means that a source has, or had, the pod. over means that it has finished.
	wanted, stopping, over bool
}

// preview compares the known pods with the desired ones.
func preview(known map[types.UID]*knownPod, next desiredPods, s source.Snapshot) Preview {
	p := Preview{Objects: s.ConfigsChanged}
	before := map[desiredName]types.UID{}
	for _, uid := range slices.Sorted(maps.Keys(known)) {
		if !next.has(uid) && !known[uid].stopping {
			before[known[uid].name] = uid
		}
	}
	replaced := map[types.UID]bool{}
	for _, want := range next.pods {
		at := desiredName{want.source, want.pod.Namespace, want.pod.Name}
		e := PodEffect{Namespace: want.pod.Namespace, Name: want.pod.Name, UID: want.pod.UID}
		old, exists := before[at]
		switch k := known[want.pod.UID]; {
		case k != nil && !k.stopping:
			k.effect(&e, want)
		case exists && runtime.IsStatic(want.pod):
			replaced[old] = true
			known[old].replacedBy(&e, want)
		case next.doubted[want.source]:
			e.Effect, e.Reason = actions.Waits, "its source knows none of the pods that an earlier agent has left"
		default:
			e.Effect, e.Reason = actions.Starts, "it is new"
			e.Containers = containerEffects(actions.Input{Pod: want.pod})
		}
		p.Pods = append(p.Pods, e)
	}
	for uid, k := range known {
		if !next.has(uid) && !replaced[uid] {
			p.Pods = append(p.Pods, k.unwanted(uid, next))
		}
	}
	p.Pods = order.Sorted(p.Pods, func(a, b *PodEffect) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	for _, err := range slices.Concat(withoutNil(s.Errors), next.conflicts) {
		p.Errors = append(p.Errors, err.Error())
	}
	for _, err := range withoutNil(s.Warnings) {
		p.Warnings = append(p.Warnings, err.Error())
	}
	return p
}

// effect describes what happens to a pod that stays, perhaps with other content.
func (k *knownPod) effect(e *PodEffect, want desiredPod) {
	in := k.input
	in.Pod = want.pod
	if in.Status == nil {
		in.Status = k.status
	}
	if k.over {
		e.Reason = "it has finished"
		return
	}
	e.Containers = containerEffects(in)
	e.Reason = "it is as it should be"
	switch plan := actions.Compute(in); {
	case plan.KillPod && plan.Sandbox.Create:
		e.Effect, e.Reason = actions.Restarts, plan.KillReason.String()
	case plan.KillPod:
		e.Effect, e.Reason = actions.Stops, plan.KillReason.String()
	case plan.Sandbox.Create:
		e.Effect, e.Reason = actions.Starts, plan.Sandbox.Reason.String()
	default:
		for _, c := range e.Containers {
			if c.Effect > e.Effect {
				e.Effect, e.Reason = c.Effect, "container "+c.Name+": "+c.Reason
			}
		}
	}
}

// replacedBy describes how a static pod is replaced by its next version.
func (k *knownPod) replacedBy(e *PodEffect, want desiredPod) {
	e.Effect, e.Reason = actions.Starts, "its manifest changed"
	has := map[string]bool{}
	for _, c := range containerEffects(actions.Input{Pod: want.pod}) {
		has[c.Name] = true
		if k.alive(c.Name) {
			e.Effect, c.Effect, c.Reason = actions.Restarts, actions.Restarts, "its manifest changed"
		}
		e.Containers = append(e.Containers, c)
	}
	for _, c := range k.stops("the new version does not have it") {
		if !has[c.Name] {
			e.Effect, e.Containers = actions.Restarts, append(e.Containers, c)
		}
	}
}

// unwanted describes what happens to a pod that no source has.
func (k *knownPod) unwanted(uid types.UID, next desiredPods) PodEffect {
	e := PodEffect{Namespace: k.name.namespace, Name: k.name.name, UID: uid, Effect: actions.Stops}
	switch {
	case k.stopping:
		e.Reason = "it is being stopped"
	case !k.wanted && next.undecided(k.name.source):
		e.Effect, e.Reason = actions.Unchanged, "an earlier agent has left it, and its source is not complete or knows no such pod"
		return e
	default:
		e.Reason = "its source does not have it"
	}
	e.Containers = k.stops("its pod is stopped")
	return e
}

// stops returns the stop of each container that is alive.
func (k *knownPod) stops(why string) (all []ContainerEffect) {
	if k.status == nil {
		return nil
	}
	for _, c := range k.status.Containers {
		if k.alive(c.Name) && !slices.ContainsFunc(all, func(e ContainerEffect) bool { return e.Name == c.Name }) {
			all = append(all, ContainerEffect{c.Name, actions.Stops, why})
		}
	}
	return order.Sorted(all, func(a, b *ContainerEffect) int { return cmp.Compare(a.Name, b.Name) })
}

func (k *knownPod) alive(container string) bool {
	c := k.status.Latest(container)
	return c != nil && (c.State == runtime.ContainerRunning || c.State == runtime.ContainerUnknown)
}

func containerEffects(in actions.Input) (all []ContainerEffect) {
	for _, e := range actions.Effects(in) {
		why := e.Reason.String()
		if e.Hold.Holds() {
			why = fmt.Sprintf("%v; it waits%v", e.Reason, e.Hold)
		}
		all = append(all, ContainerEffect{e.Container.Name, e.Effect, why})
	}
	return all
}
