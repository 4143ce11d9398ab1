// Package podworkers knows where every pod of a node stands in its life, and
// what is to be done for it next.
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
//     also if the runtime has something of its UID: that is then up to whoever
//     compares the runtime with what is known.
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
//
// A kubelet's pod workers decide the same in nearly all cases; docs/PARITY.md
// lists where this package is different on purpose.
package podworkers
