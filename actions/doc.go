// Package actions decides what one pod needs next. A program with its own loop
// imports it to decide, and a test to check decisions without a runtime.
//
// [Compute] takes a pod, its status in the runtime and its probe results, and returns a [Plan]:
// which containers to stop, whether to create a sandbox, and which containers to start, each with a
// reason. Compute carries out nothing. A Plan is a value that can be printed, compared, computed
// again and tested without a runtime; [Explain] says in words why a container is changed or left
// alone.
//
// # Using a plan
//
// Compute a plan, carry out its steps in the order that [Plan] documents, read the status again, and repeat
// until the plan is [Plan.NoOp]. It is safe to carry out only some steps, or to be killed in between: the next
// plan is computed from the status at that time. So compute a plan again rather than store it. A plan with
// [Plan.TerminatesPod] is the pod's last one: it contains only the steps that stop the pod.
//
// This package does not decide how long a crashing container backs off: see package backoff and
// Input.StartHolds. Nor does it decide whether a pod may run at all: see package podworkers, which
// stops a terminating pod without a plan.
//
// # How a pod is judged
//
// The rules are applied in this order:
//
//  0. Must the pod end regardless of its containers (Input.End)? Then it is stopped
//     (compute.go).
//  1. Must all containers restart? Then all are removed, and nothing else happens
//     until that is done (restartall.go, KEP-5532).
//  2. Is the sandbox usable? If not, the pod is stopped, and starts over in a new
//     sandbox unless it has finished (sandbox.go).
//  3. Which ephemeral containers have never been started? (regular.go)
//  4. How far has initialization progressed, and are the sidecars alive?
//     (initialize.go, KEP-753)
//  5. Which regular containers must start, stop, or run again?
//     (regular.go; after an exit restart.go, KEP-5307; for resources resize.go,
//     KEP-1287; for CPUs and NUMA nodes cpuset.go)
//  6. Is a regular container alive after these steps? If none is, the pod is stopped,
//     and no sidecar restarts (compute.go).
//  7. Which superseded instances may come alive? (clear.go)
//  8. Which postStart handlers were interrupted? (poststart.go)
//  9. Which of these steps must wait, and until when? (compute.go; for an address
//     sandbox.go)
//  10. Must the pod wait as a whole (Input.Blocked)? Then the steps are dropped;
//     a pod that has finished is stopped nevertheless (compute.go).
//
// Facts that the caller remembers and the runtime has lost are part of the Input: see
// Input.StatusComplete and the fields after it.
//
// The types are in input.go, container.go, plan.go and reason.go; observe.go caches facts about the status that
// several rules use. print.go prints a plan; explain.go and why.go explain the decision on one container;
// effect.go names its effect; message.go words the events about it.
//
// # What a pod looks like
//
// A container's current instance is the one with the highest attempt. An init or regular container counts only
// in the sandbox that it ran in: its work in an earlier sandbox does not show that the current one is
// initialized. If a status leaves SandboxID empty, the sandbox is unknown, and the container belongs to the
// current sandbox.
//
// To explain a pod that only an API server has reported, make the status from pod.Status: for each container,
// the instance of its State, if that is running or terminated, with the RestartCount as the Attempt. If it is
// waiting, the instance of its LastTerminationState has that Attempt. A pod status shows no sandbox: assume one
// that is ready, or each container would start in a new one. It does not show when a back-off ends either:
// without Input.StartHolds the plan has the start that follows it.
//
// # Bad input
//
// If [Input.Validate] rejects a pod, or the pod is nil, the Plan has no steps and reports the error in Invalid.
// A nil status means that the runtime has nothing for the pod. Containers in the status that are not in the
// spec are left alone, unless the pod is stopped as a whole. Nothing panics.
//
// # Parity
//
// The decisions are those of kubelet v1.36.2 on thousands of recorded pods, except for the deviations in
// docs/PARITY.md.
package actions
