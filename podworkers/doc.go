// Package podworkers tracks the phase of every pod on a node and calls a Syncer for it: one call at a time,
// retried with back-off, interrupted when the pod must stop. A program that has its own SyncPod imports it
// to run one call per pod at a time.
//
// It has two layers. [Set] decides: it is the state of all pods, a state machine without goroutine,
// clock or lock. The caller reports changes with [Set.Update], takes work with [Set.Next], returns its
// outcome with [Set.Done], and reports with [Set.SyncKnownPods] which pods the sources want. The time is an
// argument, and [Effects] list what the caller must do.
//
// [Workers] act, and decide only on times: they hold a Set, call a [Syncer] for
// every pod that has work, cancel it when the Set requires it, and retry failed work. An agent uses
// Workers.
//
// In a kubelet, [New] is newPodWorkers, [Workers.UpdatePod] is UpdatePod with podWorkerLoop, [Workers.KillPod] is killPodNow,
// [Workers.SyncKnownPods] has the same name, [Workers.State] answers IsPodTerminationRequested, ShouldPodContainersBeTerminating
// and the like, and a [Desired] is HandlePodAdditions, HandlePodUpdates, HandlePodRemoves and HandlePodCleanups.
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
//	set.go        the pods, their next work, and the meaning of outcomes
//	state.go      the transitions of one pod
//	phase.go      the phases
//	update.go     updates, work, outcomes and effects
//	grace.go      the time a pod has to stop
//	static.go     static pods of one name run one after the other
//	known.go      which pods are wanted
//	remove.go     the removal of orphaned pods
//	stop_again.go containers that run although their pod should have stopped
//	pod_state.go  the state of a pod for other parts of an agent
//
//	desired.go            Desired: the pods of one source, passed to Workers
//	workers.go            Workers: the lock and the goroutines; New, Run, UpdatePod
//	workers_scheduler.go  the state under the lock: updates and their effects
//	workers_work.go       the work of one pod: started, cancelled, abandoned, ended
//	workers_job.go        one call of the Syncer, without the lock
//	workers_ready.go      which pod is next
//	workers_retry.go      the waits before retries
//	workers_timers.go     one timer for all pods
//	workers_kill.go       KillPod
//	workers_drain.go      Drain
//	workers_ask.go        SyncKnownPods, KillRuntimePod, RemoveOrphan and State
//	workers_report.go     log, Tracker and Observer, after the lock is released
//	workers_config.go     Config; workers_syncer.go, workers_tracker.go, workers_observer.go
//	                      and workers_errors.go: the interfaces and errors of Workers
//
// # What the caller provides
//
// A [Syncer], such as that of package syncpod/worker or one of the caller's own, and for a Syncer that works on a runtime a
// [StatusSource], such as a *pleg.Watcher. Pods have a UID, and the API's defaults if the Syncer expects them: Workers read only
// the metadata, the static-pod annotation, the phase and the grace period, and without a grace period a pod has one second. The
// caller must not modify a pod after it has passed it on.
//
// # The life of a pod
//
//	         Update                      Kill, deletion, a source's
//	           |                         Failed or Succeeded, no source
//	           v                         wants it, or SyncPod: finished
//	      +---------+                        |
//	      | syncing | -----------------------+
//	      +---------+                        v
//	SyncPod, after each             +-------------+
//	update and failure              | terminating |
//	                                +-------------+
//	                  SyncTerminatingPod until it succeeds
//	                                       |
//	                                       v
//	                                +------------+
//	                                | terminated | <--+  KillRuntimePod:
//	                                +------------+    |  SyncTerminatingRuntimePod
//	                  SyncTerminatedPod until it      |  until it succeeds, in
//	                  succeeds             |          |  its current phase
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
// A pod passes the phases in this order and never returns to an earlier one. It may skip some:
//
//   - A pod that has finished at its source before its first update, and that has no running container,
//     begins as terminated: an earlier agent has stopped it.
//   - A pod that only the runtime knows has SyncTerminatingRuntimePod in place of
//     SyncTerminatingPod, and is orphaned right after it.
//   - A pod that no source wants before it could start is orphaned at once.
//   - A static pod that must stop before it has started is finished at once, unless the runtime has
//     containers of it.
//
// If a source gives the UID of a pod to a new pod (Create while the old pod stops, or later), the old pod is orphaned
// once it has finished. The new pod begins when the old pod has been forgotten, with its last update.
//
// # Invariants
//
//   - A pod has at most one call in flight. The last update that arrives meanwhile is pending; it replaces earlier
//     ones. A request to stop is part of the pod's state, so a later update does not replace it.
//   - A terminating pod gets no further SyncPod.
//   - The time that a pod has to stop only becomes shorter, and its deadline earlier. The time begins with the
//     request, or without a request with the first SyncTerminatingPod, and not again with each retry.
//   - Each stop request is answered exactly once, in Effects.Stopped: when the pod has stopped, can no longer
//     start, or is forgotten. A request in an update that does not stop the pod is answered at once.
//   - Only one static pod of each full name has work at a time. The pods follow each other in the order of their first updates.
//   - The outcome of abandoned work changes nothing. No pod is removed before all of its abandoned work has
//     returned.
//   - A pod is forgotten only when RemovePod has succeeded and no running container was found meanwhile.
//   - Containers that run although their pod should have stopped (see [Set.KillRuntimePod]) are stopped, in
//     whatever phase the pod is.
//   - A pod that is neither finished nor forgotten has work in flight, pending work, or a time of its next work.
//     The caller never has to request a retry.
//   - A finished pod whose containers are being stopped again is not orphaned by SyncKnownPods. It is orphaned
//     when that stop has succeeded, without another call.
//
// # Work that is no pod
//
// Workers can run other work, such as downloads: a v1.Pod with a UID stands for each, and the Syncer reads from it
// what it needs. Leave Config.Status nil. An update does not cancel a SyncPod in flight; only a
// stop does. SyncPod is called again at least every ResyncInterval, so one that has nothing to do must return at
// once. After a stop, the UID is free once SyncKnownPods without it has led to RemovePod.
//
// # Concurrency
//
// [Workers.Run] owns all goroutines and returns when the last of them has. There
// is one for Run itself, one for each pod with work in flight, and at most one more that is about to take
// work. An idle pod has none, and one timer serves all pods.
//
// All methods may be called from any goroutine, a Syncer's, an Observer's
// and a Tracker's calls included, with one exception: a Syncer that calls Drain, Run, or KillPod for its own pod
// waits for itself. UpdatePod, SyncKnownPods,
// KillRuntimePod, RemoveOrphan and State never wait for work. They wait for one lock, which is
// held for microseconds and never across a call to the Syncer, the StatusSource, the Tracker, the
// Observer or the Logger; and all of them but State report their changes to the Tracker, the Observer and
// the Logger before they return.
//
// In the sense of the Go memory model:
//
//   - a call of UpdatePod happens before the work that follows from it;
//   - the return of a Syncer's call for a pod happens before the next read of the pod's status, and that read
//     before the pod's next call, unless the first call was abandoned;
//   - the return of the SyncTerminatingPod that stopped a pod happens before the return of the KillPod that waited for
//     it, and before Terminated is true;
//   - the return of every call happens before the return of Run.
//
// A request to stop a pod, or to stop it sooner, cancels the pod's work in flight
// before UpdatePod returns. Work that is still in flight a second later is abandoned: the pod gets
// other work, so two calls for it may run at once, and the outcome of the late one is ignored. When an abandoned
// SyncPod returns, the pod is stopped once more, because that call may have started a container.
//
// The context of a caller ends only its own waiting. The context of Run ends all work, and the pods keep
// running. In this package, kill means to stop one pod, drain means to stop all pods, and detach means to
// end the work and leave the pods running.
//
// A Syncer must return soon after its context's cancellation. It may get the same work again after it has succeeded. It must
// not return nil from a stop while a container in the pod runs, and must not write to the pods and statuses. Workers cannot end
// a call that does not return: its pod waits until it must stop, or stop sooner, and Run returns only after the call.
//
// docs/PARITY.md lists the deliberate deviations from the kubelet's pod workers.
package podworkers
