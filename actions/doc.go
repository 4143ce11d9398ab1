// Package actions decides what one pod needs next.
//
// [Compute] takes a pod, what the runtime reports of it and what its probes say,
// and returns a [Plan]: which containers to stop, whether to make a sandbox,
// which containers to start, each with the reason. It does none of it. A Plan is
// a value that can be printed, compared, computed again and tested without a
// runtime; [Explain] says in words why a container is touched or left alone.
//
// # Using a plan
//
// Compute, carry out what the plan says in the order that [Plan] documents, look
// at the runtime again, and compute again, until the plan is [Plan.NoOp]. It is
// safe to carry out only a part, or to be killed on the way: the next plan is
// made from what the runtime reports then. So ask again rather than keep a plan.
// A plan that [Plan.TerminatesPod] the pod is the last one: what stops it is in it, and
// nothing else.
//
// How long a container that crashes waits is not decided here: see package
// backoff and Input.StartHolds. Nor is whether a pod may run at all: a pod that is to stop is stopped
// whatever its plan would be, see package podworkers.
//
// # How a pod is judged
//
// The rules are asked in this order:
//
//  0. Is the pod to end whatever its containers do (Input.End)? Then it is stopped
//     (compute.go).
//  1. Do all containers restart? Then all are removed, and nothing else happens
//     before that is done (restartall.go, KEP-5532).
//  2. Is the sandbox fit for use? If not, the pod is stopped, and it starts over
//     in a new one unless it has had its run (sandbox.go).
//  3. Which ephemeral containers have never been started? (regular.go)
//  4. How far has initialization come, and are the sidecars alive?
//     (initialize.go, KEP-753)
//  5. Which regular containers are to start, to stop, or to run again?
//     (regular.go; after an exit restart.go, KEP-5307; for resources resize.go,
//     KEP-1287)
//  6. Is a regular container alive then? If none is, the pod is stopped
//     (compute.go).
//  7. Which instances may come alive although their place is taken? (clear.go)
//  8. Which postStart handlers were cut short? (poststart.go)
//  9. Which of these steps have to wait, and until when? (compute.go; for an address
//     sandbox.go)
//  10. Does the pod have to wait as a whole (Input.Blocked)? Then the steps are taken
//     back; a pod that is over is stopped all the same (compute.go).
//
// What the caller remembers and the runtime has lost is part of the Input: see
// Input.StatusComplete and the fields after it.
//
// What the rules take and give is in input.go, container.go, plan.go and reason.go,
// and what they ask about the status again and again in observe.go. print.go puts a
// plan into words; explain.go and why.go explain the decision on one container; message.go has
// the messages of events about it.
//
// # What a pod looks like
//
// The current instance of a container is the one with the highest attempt. Init
// and regular containers count where they ran: what they did in an earlier
// sandbox does not show that the present one is initialized. Where a runtime
// status leaves SandboxID empty, this cannot be told, and a container is taken to
// be of the present sandbox.
//
// # Bad input
//
// The Plan of a pod that [Input.Validate] refuses, or that is nil, says so and has
// nothing to do. A nil status is that of a pod the runtime does not know. Containers in
// the status that the pod does not have are left alone, unless the pod is stopped as a
// whole. Nothing panics.
//
// # Parity
//
// The decisions are those of kubelet v1.36.2 on thousands of recorded pods, but
// for the deviations in docs/PARITY.md.
package actions
