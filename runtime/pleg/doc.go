// Package pleg watches a container runtime's pods: it keeps a [runtime.Cache] up to date and reports changed pods. The name is
// the kubelet's: pod lifecycle event generator. This one generates inspections, not events. A program with its own loop
// imports it to learn which pods have changed.
//
// A [Watcher] is a kubelet's GenericPLEG and EventedPLEG with the pod cache. It needs a [Reader] only, such as a *reader.Reader
// on four calls to a runtime:
//
//	r, err := reader.New(reader.Config{Runtime: client, RuntimeName: "containerd"})
//	w, err := pleg.New(pleg.Config{Reader: r, Changed: changed})
//	go w.Run(ctx)
//	status, err := w.GetNewerThan(ctx, uid, time.Now())
//
// A Watcher is a podworkers.StatusSource: workers wait in GetNewerThan for a status that is newer than their last change.
//
// # Settings, health and observers
//
// [Settings] are what an operator chooses; an agent has them in its Config. [Health] reports whether the runtime is
// available and its pods can be inspected, and an [Observer] observes each list and each inspection.
//
// # Level, not edge
//
// A runtime event, a list that shows a difference, a sync's end: each only means that a pod should be inspected. The
// Watcher stores one flag for each pod. So no queue overflows, nothing is dropped, many events for one pod cost one or
// two inspections, and a late, duplicate or wrong event costs one inspection that finds no change (KEP-3386, kubernetes
// #121003).
//
// An event costs no inspection if the newest status already shows its cause. Events for a pod during a sync wait for the
// sync's end, which inspects the pod anyway: see [Watcher.Hold]. So an agent's own work on a pod costs one inspection,
// not one for each step.
//
// At most one inspection per pod is in flight. If another one is requested meanwhile, it starts afterwards.
//
// # One pod does not delay another
//
// Each pod has a goroutine while it is inspected, so an inspection that hangs delays only its own
// pod (kubernetes #94829). At most eight inspections run at a time, but each counts only
// for its first 100 ms: whether 1 or 300 pods hang, the others are inspected. A failed inspection
// is retried, first after 100 ms and then with back-off, until it succeeds.
//
// # Events, or lists
//
// If the runtime streams events, the Watcher lists all pods when the stream opens, again after a
// second (a stream may open a moment before the runtime sends on it), and then every 5 min in case
// an event was lost. A quiet node causes no other calls. Events are only hints: every runtime loses,
// repeats and delays them, and events during a broken stream are lost.
//
// Without events (containerd 1.6), and while no stream stays open, the Watcher only lists. The pause between lists is
// 20 ms after a change and doubles up to 1 s; while no pod is in transition it slowly grows to 10 s. It is at least four
// times the last list's duration.
//
// # The time of a status
//
// The time of a status is when the read that produced it began. A list with all pods counts as reading each pod that it
// shows unchanged, and each pod that it does not show. Nothing else makes a status newer: no event and no clock
// (kubernetes #120942).
//
// A container that starts and exits between two inspections is in the next one, with its exit code, as long as the
// runtime keeps it. The Watcher cannot know objects that the runtime has created and does not list.
//
// # While the runtime is unavailable
//
// When a list finds the runtime unavailable, the Watcher only lists, after 100 ms and then with
// back-off up to 5 s, and [Watcher.GetNewerThan] fails immediately. After the first successful list,
// changed pods are inspected and reported, and then Config.AvailableChanged reports that the
// runtime is available. If a single inspection finds the runtime unavailable, the Watcher only
// triggers a list.
package pleg

// Where each rule lives:
//
//	watcher.go  New, Run, and whether the runtime is available
//	pod.go      one watched pod, and its goroutine: inspect, wait, report
//	inspect.go  one inspection, and its consequences
//	list.go     one list, and its comparison with the known state
//	interval.go when the next list is due
//	stream.go   the runtime's events
//	owner.go    which pod an event's container belongs to
//	hold.go     events during the work on a pod
//	newer.go    inspections on request
//	events.go   the event stream of CRI, opened again when it is lost
//	health.go   health; config.go Config, Settings and Observer
