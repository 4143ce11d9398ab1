// Package syncpod carries out what a pod needs on a container runtime.
//
// A [Syncer] has a call for each stage of a pod's life: [Syncer.SyncPod] brings a
// pod closer to what it should be, [Syncer.SyncTerminatingPod] ends it, and
// [Syncer.SyncTerminatedPod] tidies up. For each pod call them in that order, as
// often as each fails, one at a time; package podworkers keeps that order.
//
// The least a Syncer is made of is a client of the runtime and a directory to keep
// files in; everything else in [Config] has a default.
//
// # SyncPod
//
// One call brings a pod one step closer to what it should be, in this order. Before it
// the pod is allotted its resources (Config.Extensions.Allocations).
//
//  1. Look. The status of the pod, which the caller has read or SyncPod reads. A
//     sandbox that came up late, beside the one in use, is removed first, and
//     the termination messages of exited containers are read.
//  2. Decide. Package actions makes the plan, from the status, the results of probes, what
//     is remembered, and the answers of Config.Extensions.Admit and Network. Nothing
//     changes the plan afterwards. A sandbox without an address is not given up before it
//     has had the time of one back-off.
//  3. Observe. Config.Observer gets the plan, if it changes anything.
//  4. Report. Package apistatus makes the status, and Config.Sink gets it if it
//     differs from the last one, while the work goes on.
//  5. A pod that is over, or deleted, is left to SyncTerminatingPod: nothing new is
//     made for it. That it was to end by a deadline, as an earlier agent was told, does
//     not hold for one that goes on. One that seems to be over because the runtime does
//     not know how an init container stands is stopped in step 9, and judged again.
//  6. A pod that was not admitted is stopped, and has to wait.
//  7. A pod with a network of its own waits until the node has one: nothing of it is
//     touched.
//  8. A static pod gets its mirror pod.
//  9. What is held for containers that do not run is released (container.Lifecycle), and
//     containers that are to go are stopped, all at once. No container is started of
//     which an earlier instance could not be stopped.
//  10. If something is to be started the node is made ready: cgroup, directories,
//     volumes, the resolver's configuration, the secrets to pull with. Otherwise only
//     the cgroup is kept up to date.
//  11. The sandbox is created if there is none that can be used, and reported.
//     PostStart handlers that were cut short are run.
//  12. The images of what is to start are pulled, all at once.
//  13. Containers are started in order: ephemeral, init, regular. For each:
//     attempt number, environment, mounts and configuration, creation, start,
//     postStart handler.
//  14. Containers that run are resized.
//  15. Report again, if something keeps containers from running.
//  16. The volumes of what runs are brought up to date; a failure of that is told in
//     an event. The call ends when the sink has the last status.
//
// Of many pods that start at once only a few at a time get their sandbox, or a
// container, while the processors are busy: more would make all of them slow
// (Config.Limits.MaxParallelStarts).
//
// Containers are stopped before the node is made ready, unlike in a kubelet: a
// volume that is not there does not keep what is unhealthy running.
//
// A new pod of one container whose image is there costs five calls of the
// runtime: RunPodSandbox, PodSandboxStatus for the address, ImageStatus,
// CreateContainer and StartContainer. One that is settled costs none.
//
// Whatever stops a SyncPod half way, the end of its context or of the whole
// process, the next one starts from what the runtime reports. Answers that leave
// open what happened are followed by a look, not by a repetition, so that a
// container is never run twice (kubernetes #139670).
//
// # Where each rule lives
//
// What a pod needs is judged in package actions, and what is reported of it in
// package apistatus. Here are the rules of carrying it out, in the order of the
// steps above:
//
//	sync.go            SyncPod: the order of the steps, each a type of its own over the work that they share
//	messages.go        1  termination messages
//	active_deadline.go 2  the end of a pod that was active for too long
//	facts.go           2  all that the decision depends on, and the decision; explain.go explains it
//	attempt.go         13 which attempt is next, and what the logs show
//	admit.go           2, 6, 7  admission, and the network
//	report.go          4, 15  one status after another, each delivered once
//	mirror.go          8  mirror pods
//	execute.go         9 to 14, in this order; what the plan kills, clears and resets
//	cgroup.go          10 the cgroup of the pod
//	prepare.go         10 the node made ready for the pod
//	sandbox.go         11 the sandbox, in its turn, and the wait for its address
//	start_image.go     12 images, those of containers and those that they mount
//	start.go           13 who may start now, and in which turn; one container from its
//	                      image to its postStart handler
//	start_create.go    13 CreateContainer, and what its lost answer is worth
//	start_launch.go    13 StartContainer, and postStart handlers
//	start_mounts.go    13 mounts on the node for the start alone
//	loglink.go         13 links for log shippers
//	resize.go          14 resources changed in place
//	resize_allot.go    which resources the pod is allotted, and what is said of that
//	refresh.go         16 volumes of what runs
//
//	terminate.go       SyncTerminatingPod, SyncTerminatingRuntimePod, SyncTerminatedPod
//	                   package stop stops containers and pods
//
//	memory.go          the memory of each pod, under its lock; its rules and its record are in
//	                   package memory
//	records.go         what outlives the agent, loaded and saved; records_file.go keeps it in files
//
//	config.go          Config and New; config_groups.go has the groups of Config;
//	                   config_check.go, config_client.go and config_root.go are checks and defaults
//	parts.go           the interfaces to the rest of an agent; observer.go, and events.go
//	                   with how events and log lines name a pod
//	errors.go          steps, reasons, and when to try again
//	meminfo.go         the memory of the node; maskedpaths.go, what is masked of its CPUs;
//	                   turn.go, what one at a time has
//
// # What runs once
//
// A container that is not to run again must not, though the runtime loses it. The rules:
// package memory knows which containers those are, what was seen of their current instance
// (NoteRunOnce, WithSeen, HasRunSince), and that a start that was cut short is no run; facts.go
// passes that to package actions, and which ephemeral containers have been started; start.go
// checks again before each start.
//
// # Waiting
//
// What fails is tried again at growing intervals: containers that end, and
// containers that cannot even be made (kubernetes #142032), and sandboxes. A
// container whose image or resources change does not wait. Nothing sleeps here:
// [Result.NextTry] says when to come again, and so does an error, by its method
// RetryAt; one whose method Temporary returns true will be gone soon. Package
// podworkers goes by all three.
//
// # The end of a pod
//
// From the deadline that a [Termination] has, or that the pod's grace period
// gives, everything is counted: preStop handlers run until then, sidecars wait for
// the other containers until then, and a container that is told to stop only at
// the deadline still has two seconds. See [Syncer.SyncTerminatingPod]. Of a pod whose end
// has to wait, such as for the runtime, [Syncer.SetDeadline] remembers the deadline.
//
// # Status
//
// What is reported is a walk: phases never go back, and an exit code once seen is
// never replaced. It goes on from the status that was computed last, delivered or
// not, and in a new agent from the status that the pod is handed in with. So
// whoever keeps pods over a restart of the agent fills in what the sink got last.
//
// # Memory
//
// A Syncer remembers of each pod what the runtime does not tell, such as
// back-offs, or may lose, such as exit codes, until SyncTerminatedPod or
// SyncTerminatingRuntimePod has succeeded. Nothing that keeps two instances of a container
// from running at a time depends on it. That a container which is to run once does, though
// the runtime loses it, depends on what [Records] keep of it; whoever reads statuses for
// others hands them to [Syncer.Observe], so that none is missed.
package syncpod
