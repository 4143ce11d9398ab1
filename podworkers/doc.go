// Package podworkers knows where every pod of a node stands in its life, and
// what is to be done for it next.
//
// [Workers] are what an agent uses: they call a [Syncer] for every pod that has
// something to be done, and see to it that failed work comes back. What they do
// when is decided by a Set.
//
// [Set] is the state of all pods, as a state machine: it is told of news with
// [Set.Update], hands out work with [Set.Next], takes its outcome with
// [Set.Done], and is told with [Set.Known] which pods are wanted at all. It has
// no goroutine, no clock and no lock; time comes in as an argument, and what has
// to happen outside comes out as [Effects].
//
// # The life of a pod
//
//	         Update                      Kill, deletion, a source's
//	           |                         Failed or Succeeded, no source
//	           v                         wants it, SyncPod says it is over
//	      +---------+                        |
//	      | syncing | -----------------------+
//	      +---------+                        v
//	SyncPod, as often as            +-------------+
//	there is news or a failure      | terminating |
//	                                +-------------+
//	                  SyncTerminatingPod until it succeeds
//	                                       |
//	                                       v
//	                                +------------+
//	                                | terminated |
//	                                +------------+
//	                  SyncTerminatedPod until it succeeds
//	                                       |
//	                                       v
//	                                 +----------+
//	                                 | finished | ---> forgotten by Known
//	                                 +----------+
//
// Phases are passed in this order and never back; some may be left out:
//
//   - A pod that is over at its source when it is first heard of, and of which
//     nothing runs, begins as terminated: it was stopped by an earlier agent.
//   - A pod that only the runtime knows has SyncTerminatingRuntimePod in place of
//     SyncTerminatingPod, and is forgotten right after it.
//   - A static pod that is to stop before it was started is finished at once,
//     unless the runtime was found to have something of it.
//
// A pod whose UID is given to a new pod (Create while it stops or after) is
// forgotten once it has finished, and the new pod begins with the next update.
//
// # What holds always
//
//   - Of one pod at most one work is in flight. News that arrives meanwhile
//     waits, the last of it in full; asking to stop is part of the state and is
//     never lost by that.
//   - Once terminating, a pod has no SyncPod any more.
//   - The time a pod has to stop only gets shorter, and its deadline earlier.
//   - Each stop request is answered exactly once, in Effects.Stopped: when the pod
//     has stopped, can no longer start, or is forgotten. One that comes with news
//     that does not make the pod stop is answered at once.
//   - Of the static pods with one full name, one at a time has work, in the order
//     in which they were first heard of.
//   - The outcome of work that was abandoned, or whose pod was forgotten, changes
//     nothing.
//   - What is found to run of a pod that should have stopped (see [Set.Stray]) is
//     stopped, beside the pod's phase if it has passed that.
//
// # Concurrency
//
// [Workers.Run] owns all goroutines and returns when the last of them has. There
// is one for Run itself, one for each pod whose work is in flight, and at most
// one more that is on its way to take work. An idle pod has none, and one timer
// serves them all.
//
// Everything may be called from everywhere, a Syncer's own calls and an Observer
// included, but for what waits: a Syncer that calls KillPod for its own pod, or
// Drain or Run, waits for itself. UpdatePod, Known, Stray and the questions wait
// only for a lock that is held for microseconds, and for the Observer. No lock is
// held across a call to the Syncer, the StatusSource, the Observer or the Logger.
//
// What happens before what, in the sense of the Go memory model:
//
//   - UpdatePod returns before an update that is given later, by whoever knows of
//     that, is taken; and happens before the work that follows it begins.
//   - The return of a call for a pod happens before the next call for that pod
//     begins, unless the first was abandoned, and before the status for the next
//     one is asked for.
//   - The return of the SyncTerminatingPod that stopped a pod happens before the
//     return of the KillPod that waited for it, and before Terminated is true.
//   - The return of every call happens before the return of Run.
//
// A request to stop a pod, or to stop it sooner, cancels the pod's work in flight
// before UpdatePod returns. Work that is still in flight Config.AbandonAfter later
// is abandoned: the pod goes on, so that from then on two calls for it may run at
// once, and what the late one says is dropped. When it comes back, and was a
// SyncPod, the pod is stopped once more, for it may have started something.
//
// The contexts of callers end their own waiting and nothing else; the context of
// Run ends all work, and leaves the pods as they are. Three words that are kept
// apart: to kill is to stop one pod, to drain is to stop all of them, and to
// detach is to stop working and leave them running.
//
// A Syncer must return soon after its context is cancelled, must bear being
// called again with work it has done, and must not return nil for a pod that
// still runs when asked to stop it. It must not write to the pods and statuses it
// is lent. One that never returns is never forced to: its pod waits until it is
// asked to stop, and Run does not return before it.
//
// A kubelet's pod workers decide the same in nearly all cases; docs/PARITY.md
// lists where this package is different on purpose.
package podworkers
