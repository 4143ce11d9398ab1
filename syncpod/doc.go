// Package syncpod carries out what a pod needs on a container runtime.
//
// A [Syncer] has a call for each stage of a pod's life: [Syncer.SyncPod] brings a
// pod closer to what it should be, [Syncer.SyncTerminatingPod] ends it, and
// [Syncer.SyncTerminatedPod] tidies up. For each pod call them in that order, as
// often as each fails, one at a time; package podworkers keeps that order.
//
// # SyncPod
//
// It looks at the pod, reports what it sees, asks package actions for a plan and
// carries that out:
//
//  1. Containers that are to go are stopped, all at once. No container is started
//     of which an earlier instance could not be stopped.
//  2. The node is made ready, and the sandbox created if there is none.
//  3. The images of what is to start are pulled, all at once.
//  4. Containers are started in order: attempt number, environment and
//     configuration, creation, start, postStart handler.
//
// Whatever stops a SyncPod half way, the end of its context or of the whole
// process, the next one starts from what the runtime reports. Answers that leave
// open what happened are followed by a look, not by a repetition, so that a
// container is never run twice (kubernetes #139670).
//
// # Waiting
//
// What fails is tried again at growing intervals: containers that end, and
// containers that cannot even be made (kubernetes #142032), and sandboxes. A
// container whose image or resources change does not wait. Nothing sleeps here:
// [Result.NextTry] says when to come again.
//
// # The end of a pod
//
// From the deadline that a [Termination] has, or that the pod's grace period
// gives, everything is counted: preStop handlers run until then, sidecars wait for
// the other containers until then, and a container that is told to stop only at
// the deadline still has two seconds. See [Syncer.SyncTerminatingPod].
//
// # Memory
//
// A Syncer remembers of each pod what it would be a pity to lose, such as
// back-offs and exit codes, until SyncTerminatedPod or SyncTerminatingRuntimePod
// has succeeded. Nothing that keeps a container from running twice depends on it.
package syncpod
