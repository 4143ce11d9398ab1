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
// One call brings a pod one step closer to its definition: it opens the memory and the allocation of the pod, inspects the
// runtime, gathers facts, decides, applies the plan, and reports the status. The function SyncPod in sync.go is that order.
// No step changes anything before the plan exists, except that SyncPod removes a sandbox that was created late, beside the one
// in use, and remembers what the runtime may lose. No later step changes the plan.
//
//   - Package actions computes the plan from the status, probe results, the pod's memory, and the answers of
//     Config.Extensions.Admit and Network. A pod that has finished or is deleted is left to SyncTerminatingPod. A pod that was
//     not admitted is stopped and waits.
//   - Containers that must stop are stopped first, in parallel. A container does not start if its earlier instance could not be
//     stopped. Unlike in a kubelet this comes before the node is prepared: a volume that cannot be mounted does not keep
//     an unhealthy container running.
//   - If containers must start, the node is prepared: cgroup, directories, volumes, the resolver's configuration. A sandbox is
//     created if there is none to use. One without an address is replaced only after the time of one back-off.
//   - Images are pulled in parallel, and containers start in order: ephemeral, init, regular. Each needs an attempt number,
//     environment, mounts and configuration, CreateContainer, StartContainer, and its postStart handler.
//   - Then running containers are resized, and the volumes of running containers are updated.
//   - Package status computes the status, before the plan is carried out and after it. Config.Sink gets it if it differs from
//     the last one, in parallel with the next steps. Exits and probe results that change during the steps are reported at
//     once. The call returns when the sink has the last status.
//
// If many pods start at once, only a few at a time create their sandbox or a container while the processors are
// busy, because more would slow all of them down (Config.Limits.MaxParallelStarts).
//
// While a pull, a postStart handler or a container's stop takes longer than a second, the pod is decided again, with another plan, when a status
// of the runtime or a result of a probe changes, or when a step is due. The plan leaves the containers in flight to the earlier
// plan (actions.Input.InFlight). So a container that crashes restarts at its time, whatever another one waits for. A plan that
// stops the pod, or starts it over, cancels what is in flight first. The call returns when nothing is in flight. No container
// starts except in the goroutine of the call. A container that starts for the first time waits for the postStart handlers in
// flight, as in a kubelet, and for the starts before it.
//
// A new pod with one container, whose image is present, takes five runtime calls: RunPodSandbox,
// PodSandboxStatus for the address, ImageStatus, CreateContainer and StartContainer. A settled pod takes none.
//
// If a SyncPod is interrupted, by the end of its context or of the process, the next one starts from the state that the
// runtime reports. If a call's answer is lost, SyncPod inspects the runtime and does not repeat the call, so that a
// container never runs twice (kubernetes #139670).
//
// # What runs once
//
// A container that must run only once must not run again, even if the runtime loses it. Package memory records these
// containers and their instances' observed states (NoteRunOnce, WithSeen, HasRunSince); a start that was
// interrupted is no run. gather passes these facts, and the ephemeral containers that have started, to package
// actions. Each start checks again.
//
// # Waiting
//
// Failures are retried with a back-off: containers that end, containers that cannot be created
// (kubernetes #142032), and sandboxes. A container whose image or resources change does not wait. SyncPod does not
// sleep: [Result.NextTry] is the time of the next call, and so is an error's method RetryAt. An error whose
// method Temporary returns true probably disappears soon. Package podworkers uses all three.
//
// # A pod's end
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
// Package actions decides what a pod needs, and package status computes its status. This package's files:
//
//	sync.go       SyncPod, from open to result
//	gather.go     the facts of a decision: admission, active deadline, back-offs; learn remembers them
//	explain.go    Explain, and the input of the last decision
//	apply.go      the order in which a plan is carried out, and its stops
//	sandbox.go    the preparation of the node, the sandbox, and the wait for its address
//	start.go      which containers may start now, and what follows from each start; the start itself is package
//	              container/start
//	mounts.go     mounts on the node that exist only during a start
//	sources.go    sources of variables, and their last answers; pull secrets
//	flights.go    stops and pulls that take long, and starts beside them
//	cpuset.go     the CPUs and NUMA nodes of containers, and their moves to others
//	resize.go     allocations, in-place resize, and the cgroup of the pod
//	report.go     the delivery of statuses, in order, each once
//	terminate.go  SyncTerminatingPod, SyncTerminatingRuntimePod, SyncTerminatedPod; package lifecycle stops containers and pods
//
//	memory.go     the memory of each pod, under its lock, and the mailbox of a call in flight; its rules and its record are in
//	              package memory
//	records.go    loads and saves the records that outlive the agent, and their files
//	logs.go       the logs and links of a pod, and their removal
//	events.go     events and log lines; the bound on the messages of events
//	secrets.go    the values of Secrets that are removed from texts of the runtime
//	errors.go     steps, reasons, and the times of retries
//	observer.go   Observer
//
//	config.go     Config and New; defaults.go, the parts that New makes of the Client, the Root and the machine
//	parts.go      the parts that a program can replace, and the interfaces to the rest of an agent
