// Package pleg watches the pods of a container runtime: it keeps a
// [runtime.Cache] as new as it can be and tells when a pod has changed. The name
// is the kubelet's, for pod lifecycle event generator; what it generates here is
// not events but looks.
//
// # Where each rule lives
//
//	watcher.go  New, Run, and whether the runtime is there
//	pod.go      one pod that is watched, and its goroutine: look, wait, tell
//	look.go     one look, and what follows from its outcome
//	list.go     one list, and how it is compared with what is known
//	pace.go     when the next list is read
//	stream.go   the runtime's events
//	owner.go    whose container it is that an event names
//	hint.go     which events need a look, and which wait for the work on their pod
//	fresh.go    looks that others ask for
//	slots.go    how many look at a time
//	health.go   what is wrong; observer.go how long things take; config.go Config
//
// # Level, not edge
//
// An event of the runtime, a list that shows a difference, a sync that has just
// ended: all of these only say that a pod should be looked at again. What is kept
// per pod is whether it should be. So nothing runs full, nothing is dropped, a
// burst of events for one pod costs one or two looks, and an event that is late,
// doubled or wrong costs a look that finds nothing (KEP-3386, kubernetes #121003).
//
// An event costs no look if the newest one shows already what it is about, and
// those of a pod that is being worked on wait for the end of that, when it is looked
// at anyway: see [Watcher.Hold]. So what an agent does itself to a pod costs it one
// look, and not one for each step that the runtime tells of.
//
// Of each pod at most one look is in flight. One that is asked for meanwhile
// begins after it.
//
// # One pod does not delay another
//
// Each pod that is looked at has a goroutine for as long as that takes, so a look
// that hangs holds up its own pod alone (kubernetes #94829). At most
// Config.Parallel looks run at a time, but a look counts only for its first
// 100 ms: whether 1 or 300 pods hang, the others are looked at. A look that fails
// is repeated, first after 100 ms and then with growing pauses, until it succeeds.
//
// # Events, or lists
//
// Where the runtime streams events, a list of all pods is read when the stream
// opens, once more when it has been open for a second (a stream may open a moment
// before the runtime listens to it), and then every 5 min in case an event was
// lost. On a quiet node that is all.
//
// Where it does not (containerd 1.6), and for as long as a stream does not stay
// open, lists are all there is. The pause between them is 20 ms after a change and
// doubles up to 1 s; when no pod is in transition it goes on growing slowly to
// 10 s. It is never less than four times what the last list took.
//
// # What a status says
//
// A status is as old as the beginning of the read that made it. A list of all
// pods is a read of each pod in which it shows no change, and of each pod it does
// not show. Nothing else makes a status younger: no event, no clock
// (kubernetes #120942).
//
// A container that lived and died between two looks is in the next one, with its
// exit code, as long as the runtime keeps it; which IDs a pod should have besides,
// because a runtime returned them and does not list them, only who made them can
// know.
//
// # While the runtime is away
//
// When a list finds the runtime unavailable, nothing is asked of it but a list,
// after 100 ms and then with pauses that grow to 5 s, and [Watcher.Fresh] fails at
// once. The first list that succeeds is compared with what was known, the pods
// that differ are looked at and told of, and only then Config.AvailableChanged
// says that the runtime is back. A single pod whose look finds the runtime
// unavailable makes a list happen, no more.
package pleg
