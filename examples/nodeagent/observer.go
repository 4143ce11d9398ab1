package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podsync/podsync/podworkers"
	"github.com/podsync/podsync/runtime/pleg"
	"github.com/podsync/podsync/syncpod"
	"github.com/podsync/podsync/syncpod/agent"
	"github.com/podsync/podsync/syncpod/loop"
	"github.com/podsync/podsync/syncpod/source"
)

// observer prints the state of the agent and its pods on a screen.
type observer struct {
	agent    *agent.Agent
	screen   *screen
	pods     []v1.Pod                       // at the last update
	removing map[types.UID]podworkers.Phase // of pods that are being removed from the node
	printed  map[types.UID]row              // the last printed row of each pod
	problems map[string]bool                // the last printed problems
	stopped  bool                           // whether the pods that -stop-unknown stops were printed
}

// The minimum time between two updates is pace, or restFactor times the last update's duration, so that many pods do not
// cost much CPU.
const (
	pace        = 100 * time.Millisecond
	restFactor  = 20
	longestRest = 5 * time.Second
)

// display shows an agent's pods as they change, until ctx ends.
func display(ctx context.Context, agent *agent.Agent, s *screen) {
	o := observer{agent: agent, screen: s, printed: map[types.UID]row{}}
	garbage := newCollection()
	tick := time.NewTicker(time.Second) // ages, and changes without an event
	defer tick.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		o.update()
		rest := min(max(pace, restFactor*time.Since(began)), longestRest)
		select {
		case <-s.changed:
			garbage.busy()
		case <-tick.C:
			garbage.settle()
		case <-ctx.Done():
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
	o.update()
}

// update updates the display.
func (o *observer) update() {
	o.read()
	health := o.agent.Health()
	if o.screen.format == table {
		rejected := 0
		for _, source := range health.Sources {
			rejected += len(source.Errors)
		}
		o.screen.show(o.rows(o.pods), rejected)
	} else {
		o.printChanges(o.pods)
	}
	o.printStopped(health)
	o.printProblems(health)
}

// read reads the agent's pods, with their statuses.
func (o *observer) read() {
	o.pods, o.removing = o.pods[:0], map[types.UID]podworkers.Phase{}
	for _, p := range o.agent.Pods() {
		if p.Phase.IsOrphan() {
			o.removing[p.Pod.UID] = p.Phase
		}
		pod := *p.Pod
		pod.Status = p.Status
		if p.Removed && pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp = &metav1.Time{}
		}
		o.pods = append(o.pods, pod)
	}
}

// rows returns kubectl's rows, and rows of pods that are being removed, which an API server no longer has.
func (o *observer) rows(pods []v1.Pod) []row {
	rows := rowsOf(pods)
	for i := range pods {
		switch o.removing[pods[i].UID] {
		case podworkers.Orphaned:
			rows[i].Status = "Orphaned"
		case podworkers.Removing:
			rows[i].Status = "Removing"
		}
	}
	return rows
}

// printChanges prints the changes of pods since the last call. It prints removed pods first, because a new
// pod may have the same name as a removed pod.
func (o *observer) printChanges(pods []v1.Pod) {
	gone := maps.Clone(o.printed)
	for i := range pods {
		delete(gone, pods[i].UID)
	}
	for _, uid := range slices.Sorted(maps.Keys(gone)) {
		delete(o.printed, uid)
		o.screen.print(record{Kind: "Gone", Namespace: gone[uid].Namespace, Name: gone[uid].Name, UID: uid})
	}
	for i, r := range o.rows(pods) {
		pod := &pods[i]
		if was, ok := o.printed[pod.UID]; ok && was == r {
			continue
		}
		o.printed[pod.UID] = r
		o.screen.print(record{
			Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Reason: r.Status, Ready: r.Readiness(), Restarts: &r.Restarts, Status: &pod.Status,
		})
	}
}

// printStopped prints once which pods -stop-unknown stops.
func (o *observer) printStopped(h loop.Health) {
	for _, source := range h.Sources {
		if len(source.Stopped) > 0 && !o.stopped {
			o.stopped = true
			o.screen.say("-stop-unknown stops the pods of an earlier agent that are not in the folder: %s.", someOf(source.Stopped))
		}
	}
}

// printProblems prints each new problem of the agent once.
func (o *observer) printProblems(h loop.Health) {
	wrong := map[string]bool{}
	for _, r := range problemsOf(h) {
		if !o.problems[r.Message] && !wrong[r.Message] {
			o.screen.print(r)
		}
		wrong[r.Message] = true
	}
	if len(wrong) == 0 && len(o.problems) > 0 {
		o.screen.say("All is well again.")
	}
	o.problems = wrong
}

// problemsOf returns a message for each error and warning that no event of a pod reports.
func problemsOf(h loop.Health) []record {
	var wrong []record
	switch err := h.Runtime.Err; {
	case err == nil:
		wrong = messages(wrong, levelError, "The runtime does not list its pods: %v", h.Runtime.ListErr)
	case !errors.Is(err, pleg.ErrNotListed) && !errors.Is(err, pleg.ErrStopped):
		wrong = messages(wrong, levelError, "The runtime does not answer since "+h.Runtime.Since.Format(time.TimeOnly)+": %v", err)
	}
	wrong = messages(wrong, levelError, "%v", append(slices.Clone(h.Conflicts), h.Store)...)
	for _, source := range h.Sources {
		for _, err := range source.Errors {
			wrong = messages(wrong, levelError, "%v"+keptNote(err), err)
		}
		wrong = messages(wrong, levelWarning, "Warning: %v", source.Warnings...)
		if len(source.Unknown) > 0 {
			wrong = messages(wrong, levelError, "None of an earlier agent's pods is in the folder: %v. They stay as they are, and no other pod starts. "+
				"Are -manifests and -node right? -stop-unknown stops these pods.", errors.New(someOf(source.Unknown)))
		}
		if !errors.Is(source.Failed, context.Canceled) { // which ends each source with the agent
			wrong = messages(wrong, levelError, "%v", source.Failed)
		}
	}
	for _, pod := range h.Pods {
		for _, err := range unreportedErrors(pod.Err) {
			wrong = messages(wrong, levelError, "Pod %v", fmt.Errorf("%s: %w", orElse(pod.Name, string(pod.UID)), err))
		}
	}
	return wrong
}

// someOf joins the first ten names.
func someOf(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		names = append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

// keptNote adds to the error of a manifest that the agent keeps its previous version.
func keptNote(err error) string {
	if e, ok := errors.AsType[*source.ManifestError](err); ok && e.Kept {
		return ". The previous version stays in effect."
	}
	return ""
}

// unreportedErrors returns the errors of a pod that no event reports. Step errors have events.
func unreportedErrors(err error) []error {
	switch e := err.(type) {
	case *syncpod.StepError:
		return nil
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, unreportedErrors(one)...)
		}
		return all
	}
	return []error{err}
}

// messages appends a message for each of errs that is not nil.
func messages(to []record, l level, format string, errs ...error) []record {
	for _, err := range errs {
		if err == nil {
			continue
		}
		r := record{Kind: "Message", Level: l, Message: fmt.Sprintf(format, err)}
		if e, ok := errors.AsType[*source.ManifestError](err); ok {
			r.File, r.Document = e.File, e.Document
		}
		to = append(to, r)
	}
	return to
}
