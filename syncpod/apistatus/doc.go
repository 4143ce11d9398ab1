// Package apistatus makes the status to report of a pod, v1.PodStatus, from what
// was observed.
//
// [Compute] takes the pod, the status that was reported last, what the runtime
// and the probes say, and what went wrong when containers were to be started. It
// is pure: the time is an argument, nothing given is written to, and the result
// shares no memory with it. [Merge] makes of it the status to publish, whose phase
// never goes back. Whoever reports passes each of those as [Input.Previous] of the
// next one, delivered or not.
//
// # The order of the rules
//
// Each group has a file of its own. A later one builds on those before it: status.go
// calls them in this order, with what input.go names. The walk of the phases is in
// hold.go.
//
//  1. Each container (container.go). Its instance that runs counts, or else the
//     one with the highest attempt. Without one, an end that was reported
//     holds; an init container of a pod that is past it counts as completed; any
//     other one waits. A pod that admission rejected has none (rejected.go).
//  2. How it ended (termination.go), and how the instance before it did.
//  3. Why it waits, if it is to be started and could not be; in a pod that has
//     ended, that it does not wait.
//  4. Whether it has started and is ready (probes.go).
//  5. What it was allotted and has, who it runs as, and what it mounts (resources.go).
//  6. The phase, from all containers (phase.go). Eviction and Blocked override it,
//     and an end that was reported before overrides all.
//  7. The conditions, from containers and phase (conditions.go).
//  8. The addresses (addresses.go).
//
// # What is read from the last status, and why
//
//   - A phase that is final: a pod that has ended stays as it ended.
//   - The ends of containers: once an exit code was reported, every later report
//     on that instance has it, even if the runtime has lost the record or has
//     another answer. ContainerStatusUnknown with exit code 137 stands in only for
//     what was reported to run and then was gone.
//   - Restart counts: they never fall. A runtime that lost its records counts
//     from 0 again.
//   - Whether a container had started and was ready: an agent that starts anew
//     has no probe results yet. It holds for the same container ID only. For the
//     phase it counts that a sidecar has ever started.
//   - Volume mounts: they are reported before a container is made, and hold from
//     then on.
//   - The resources of a container that ran, where the runtime says nothing of them.
//   - Addresses: they stay until a sandbox has others.
//   - Conditions: their transition time changes only with their status.
//   - The start time.
//
// From Pod.Status come the conditions and fields that others write: readiness
// gates, nominated node, resource claims.
//
// # Limits
//
// The health of devices is not reported. An end that was never observed cannot be reported: look at the runtime
// before a container's record is removed.
//
// # Parity
//
// The statuses are those that kubelet v1.36.2 made of thousands of recorded pods,
// but for the deviations in docs/PARITY.md.
package apistatus
