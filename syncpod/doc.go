// Package syncpod syncs pods: it compares a pod with the container runtime, and carries out the plan of package
// actions over CRI. A program with its own workers imports it to carry out one sync; package agent brings
// workers and sources along.
//
// A [Syncer] has one call for each stage of a pod's life. [Syncer.SyncPod] brings a pod closer to its definition,
// [Syncer.SyncTerminatingPod] stops it, and [Syncer.SyncTerminatedPod] cleans up after it. The caller makes the
// calls of a pod in this order, one at a time, and repeats a call that fails; package podworkers does so.
//
// A Syncer needs a client of the runtime and a directory for its files. All other fields of [Config] have defaults.
//
// # SyncPod
//
// One call brings a pod one step closer to its definition, in this order. Before that the pod is allocated its
// resources (Config.Extensions.Allocations).
//
//  1. Inspect. The caller passes the status of the pod, or SyncPod reads it. SyncPod removes a sandbox that was
//     created late, beside the one in use, and reads the termination messages of exited containers.
//  2. Decide. Package actions computes the plan from the status, the results of probes, the memory of the
//     pod, and the answers of Config.Extensions.Admit and Network. No later step changes the plan. A sandbox
//     without an address is replaced only after the time of one back-off.
//  3. Observe. Config.Observer gets the plan, if it changes anything.
//  4. Report. Package apistatus computes the status. Config.Sink gets it if it differs from the last one, in
//     parallel with the next steps. Exits that are observed, and results of probes that change, during the next steps are
//     reported at once.
//  5. A pod that has finished or is deleted is left to SyncTerminatingPod: no container starts. For all other pods
//     SyncPod forgets the deadline of an earlier termination. If a pod only seems to have finished, because the
//     runtime reports an init container as unknown, step 8 stops that container and the next SyncPod decides again.
//  6. A pod that was not admitted is stopped and waits.
//  7. A pod with its own network waits until the node's network is ready; no step changes it before.
//  8. Containers that must stop are stopped in parallel. A container does not start if its earlier instance could not be
//     stopped. If a stop takes more than a second, the next steps are taken for the other containers.
//  9. If containers must start, the node is prepared: cgroup, directories, volumes, the resolver's
//     configuration, the pull secrets. Otherwise only the cgroup is updated.
//  10. A sandbox is created if there is none to use, and is reported. PostStart handlers that were interrupted run
//     again.
//  11. The images of the containers that start are pulled in parallel.
//  12. Containers start in order: ephemeral, init, regular. Each needs an attempt number, environment, mounts and
//     configuration, CreateContainer, StartContainer, and its postStart handler. If a pull takes more than a second, the
//     containers that do not depend on its container start before it, and the next steps are taken. See below.
//  13. Running containers are resized.
//  14. Report again, if a container cannot run.
//  15. The volumes of running containers are updated; a failure is recorded as an event. The call returns when the
//     sink has the last status.
//
// If many pods start at once, only a few at a time create their sandbox or a container while the processors are
// busy, because more would slow all of them down (Config.Limits.MaxParallelStarts).
//
// While a pull or the stop of a container takes long, the pod is decided again (steps 1 to 15, with another plan) when a status
// of the runtime or a result of a probe changes, or when a step is due. The plan leaves the containers in flight to the earlier
// plan (actions.Input.InFlight). So a container that crashes restarts at its time, whatever another one waits for. A plan that
// stops the pod, or starts it over, cancels what is in flight first. The call returns when nothing is in flight. No container
// starts except in the goroutine of the call. A postStart handler still delays all that follows.
//
// Containers are stopped before the node is prepared, unlike in a kubelet: a volume that cannot be mounted does not keep
// an unhealthy container running.
//
// A new pod with one container, whose image is present, takes five calls of the runtime: RunPodSandbox,
// PodSandboxStatus for the address, ImageStatus, CreateContainer and StartContainer. A settled pod takes none.
//
// If a SyncPod is interrupted, by the end of its context or of the process, the next one starts from the state that the
// runtime reports. If the answer of a call is lost, SyncPod inspects the runtime and does not repeat the call, so that a
// container never runs twice (kubernetes #139670).
//
// # What runs once
//
// A container that must run only once must not run again, even if the runtime loses it. Package memory records these
// containers and the observed states of their instances (NoteRunOnce, WithSeen, HasRunSince); a start that was
// interrupted is no run. facts.go passes these facts, and the ephemeral containers that have started, to package
// actions. start.go checks again before each start.
//
// # Waiting
//
// Failures are retried with a back-off: containers that end, containers that cannot be created
// (kubernetes #142032), and sandboxes. A container whose image or resources change does not wait. SyncPod does not
// sleep: [Result.NextTry] is the time of the next call, and so is the method RetryAt of an error. An error whose
// method Temporary returns true probably disappears soon. Package podworkers uses all three.
//
// # The end of a pod
//
// The deadline of a [Termination], or without one the pod's grace period, bounds the whole termination: preStop
// handlers run until then, and sidecars wait for the other containers until then. A container that gets its stop
// signal only at the deadline still has two seconds. See [Syncer.SyncTerminatingPod]. If a termination must wait, for
// example for the runtime, [Syncer.SetDeadline] records the deadline.
//
// # Status
//
// A status never goes back: phases only move forward, and a recorded exit code is never replaced. Each status
// continues the last one that was computed, delivered or not. In a new agent it continues the status of the pod
// that the caller passes, so an embedder that keeps pods over a restart must pass the status that the sink got
// last.
//
// # Memory
//
// A Syncer remembers facts of each pod that the runtime does not report, such as back-offs, or may lose, such as exit
// codes. It forgets them when SyncTerminatedPod or SyncTerminatingRuntimePod has succeeded. The rule that only one
// instance of a container runs at a time does not depend on this memory. The rule that a container runs once, even
// if the runtime loses it, depends on the records below the Root. An embedder that reads statuses for other purposes passes them to
// [Syncer.Observe], so that no state is missed.
//
// Config.Root has a record of each pod for the next agent. Without a Root, the next agent knows only what the runtime
// and the logs show. Then
//
//   - a pod that was being stopped gets its whole grace period again, and its preStop handlers run again;
//   - a container whose start was interrupted counts as exited with the runtime's error, so that a pod that may not
//     restart fails;
//   - an interrupted postStart handler does not run again (kubernetes #122803);
//   - a container that must run once, and that the runtime has lost while the agent was down, runs again, with an event
//     that says so (kubernetes #51142);
//   - containers whose resources have changed in the meantime keep their old resources;
//   - a crashing container is restarted without back-off.
package syncpod

// Where each rule lives:
//
// Package actions decides what a pod needs, and package status computes its status. The files of this package carry the
// plan out, in the order of the steps above:
//
//	sync.go            SyncPod: the order of the steps
//	messages.go        1  termination messages
//	active_deadline.go 2  activeDeadlineSeconds
//	facts.go           2  the input of the decision, and the decision; explain.go explains it
//	attempt.go         12 the attempts in the logs
//	admit.go           2, 6, 7  admission, and the network
//	report.go          4, 14  the delivery of statuses, in order, each once
//	execute.go         8 to 13; the kills and resets of the plan
//	cgroup.go          9 the cgroup of the pod
//	prepare.go         9 the preparation of the node
//	sandbox.go         10 the sandbox, and the wait for its address
//	flights.go         8, 11 stops and pulls that take long, and decisions beside them
//	start_secrets.go   11 pull secrets, if an image needs them
//	start.go           12 which containers may start now, and what follows from each start; the
//	                      start itself is package container/start
//	start_sources.go   12 sources of variables, and their last answers
//	start_mounts.go    12 mounts on the node that exist only during a start
//	loglink.go         12 links for log shippers
//	logremoval.go      the logs and links of a pod that is removed
//	resize.go          13 in-place resize
//	resize_allocate.go    the allocated resources of the pod, and their conditions
//	refresh.go         15 volumes of running containers
//
//	terminate.go       SyncTerminatingPod, SyncTerminatingRuntimePod, SyncTerminatedPod
//	                   package lifecycle stops containers and pods
//
//	memory.go          the memory of each pod, under its lock; its rules and its record are in
//	                   package memory
//	records.go         loads and saves the records that outlive the agent; records_files.go, their files
//
//	config.go          Config and New; config_groups.go has the groups of Config;
//	                   config_check.go, config_client.go and config_root.go are checks and defaults
//	parts.go           the parts that a program can replace, with their defaults
//	extensions.go      the interfaces to the rest of an agent; observer.go, and events.go
//	                   with how events and log lines name a pod
//	bounded.go         the bound on the messages of events; secrets.go, the values of Secrets
//	                   that are removed from texts of the runtime
//	errors.go          steps, reasons, and the times of retries
//	meminfo.go         the memory of the node; maskedpaths.go, the masked paths of its CPUs;
//	                   turn.go, a lock with a context
