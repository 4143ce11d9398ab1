// Package podworkers tracks the phase of every pod of a node and calls a Syncer for
// it: one call at a time, retried with back-off, interrupted when the pod must stop.
//
// It has two layers. [Set] decides, and does nothing: it is the state of all
// pods, as a state machine without goroutine, clock or lock. The caller reports changes
// with [Set.Update], takes work with [Set.Next], returns its outcome with [Set.Done], and
// reports with [Set.SyncKnownPods] which pods are wanted at all. Time comes in as an
// argument, and [Effects] list what the caller must do.
//
// [Workers] do, and decide nothing but when: they hold a Set, call a [Syncer] for
// every pod that has work, cancel it when the Set says so, and bring what failed
// back. They are what an agent uses.
//
//	UpdatePod, KillPod, SyncKnownPods, KillRuntimePod, RemoveOrphan, Drain
//	    |
//	    v          Effects           work
//	   Set  ---------------> Workers ------> Syncer
//	    ^                    |     ^           |
//	    +--------------------+     +-----------+
//	       Update, Next, Done       result, error
//
// Where each rule lives:
//
//	set.go        what is known, which work is next, what its outcome means
//	state.go      the transitions of one pod
//	phase.go      the phases
//	update.go     news, work, outcomes and effects
//	grace.go      the time a pod has to stop
//	static.go     static pods of one name take turns
//	known.go      which pods are wanted
//	remove.go     orphaned pods are removed, and then forgotten
//	stray.go      what runs of a pod that should have stopped
//	pod_state.go  what others may ask
//
//	workers.go            Workers: the lock and the goroutines; New, Run, UpdatePod
//	workers_scheduler.go  what the lock guards: updates are taken, effects followed
//	workers_work.go       the work of one pod: started, cancelled, abandoned, ended
//	workers_job.go        one call of the Syncer, without the lock
//	workers_ready.go      which pod is next
//	workers_retry.go      how long until the next try
//	workers_timers.go     one timer for all pods
//	workers_kill.go       KillPod
//	workers_drain.go      Drain
//	workers_ask.go        SyncKnownPods, KillRuntimePod, RemoveOrphan and State
//	workers_report.go     log and Observer, after the lock is released
//	workers_config.go     Config; workers_syncer.go, workers_observer.go and
//	                      workers_errors.go: what Workers call, tell and return
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
//	                                | terminated | <--+  KillRuntimePod:
//	                                +------------+    |  SyncTerminatingRuntimePod
//	                  SyncTerminatedPod until it      |  until it succeeds, in
//	                  succeeds             |          |  the phase it is in
//	                                       v          |
//	                                 +----------+     |
//	                                 | finished | <---+
//	                                 +----------+     |
//	      SyncKnownPods: no source wants   |          |
//	      it, or wants a new one           v          |
//	                                 +----------+     |   RemoveOrphan: an earlier
//	                                 | orphaned | <---+-- agent has left it
//	                                 +----------+     |
//	              no call for it is in     |          |
//	              flight                   v          |
//	                                 +----------+     |
//	                                 | removing | <---+
//	                                 +----------+
//	                  RemovePod until it   |
//	                  succeeds             v
//	                                   forgotten
//
// Phases are passed in this order and never back; some may be left out:
//
//   - A pod that is over at its source when it is first heard of, and of which
//     nothing runs, begins as terminated: it was stopped by an earlier agent.
//   - A pod that only the runtime knows has SyncTerminatingRuntimePod in place of
//     SyncTerminatingPod, and is orphaned right after it.
//   - A pod that no source wants before it could start is orphaned at once.
//   - A static pod that is to stop before it was started is finished at once,
//     unless the runtime was found to have something of it.
//
// A pod whose UID is given to a new pod (Create while it stops or after) is orphaned once
// it has finished. The new pod begins with the first update after that, and no sooner than
// the old one is forgotten.
//
// # What holds always
//
//   - Of one pod at most one work is in flight. News that arrives meanwhile
//     waits, the last of it in full; asking to stop is part of the state and is
//     never lost by that.
//   - Once terminating, a pod has no SyncPod any more.
//   - The time a pod has to stop only gets shorter, and its deadline earlier. It
//     runs from the request, or if there was none from when the pod was first told
//     to stop, and not anew with each try.
//   - Each stop request is answered exactly once, in Effects.Stopped: when the pod
//     has stopped, can no longer start, or is forgotten. One that comes with news
//     that does not make the pod stop is answered at once.
//   - Of the static pods with one full name, one at a time has work, in the order
//     in which they were first heard of.
//   - The outcome of work that was abandoned changes nothing. No pod is removed before all
//     of it has returned.
//   - A pod is forgotten only when RemovePod has succeeded and nothing was found to run
//     meanwhile.
//   - What is found to run of a pod that should have stopped (see [Set.KillRuntimePod]) is
//     stopped, beside the pod's phase if it has passed that.
//   - A pod that is not finished has work in flight, work waiting, or a time at
//     which it is looked at again, and so does an orphaned one. Nobody outside has to ask
//     for a retry.
//   - A finished pod that SyncKnownPods did not orphan because something of it was being
//     stopped is orphaned when that has succeeded. The caller does not repeat the call.
//
// # Concurrency
//
// [Workers.Run] owns all goroutines and returns when the last of them has. There
// is one for Run itself, one for each pod whose work is in flight, and at most
// one more that is on its way to take work. An idle pod has none, and one timer
// serves them all.
//
// All methods may be called from any goroutine, a Syncer's and an Observer's
// calls included, with one exception: a Syncer that calls KillPod for its own
// pod, or Drain or Run, waits for itself. UpdatePod, SyncKnownPods,
// KillRuntimePod, RemoveOrphan and State never wait for work. They wait for one lock, which is
// held for microseconds and never across a call to the Syncer, the StatusSource, the
// Observer or the Logger; and all of them but State report their changes to the Observer and
// the Logger before they return.
//
// In the sense of the Go memory model, these happen before each other:
//
//   - a call of UpdatePod before the work that follows from it;
//   - the return of a Syncer's call before the look at the pod for the next call,
//     and that before the next call, of one pod, unless the first was abandoned;
//   - the return of the SyncTerminatingPod that stopped a pod before the return of
//     the KillPod that waited for it, and before Terminated is true;
//   - the return of every call before the return of Run.
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
// asked to stop, or to stop sooner, and Run does not return before it.
//
// A kubelet's pod workers decide the same in nearly all cases; docs/PARITY.md
// lists where this package is different on purpose.
package podworkers
