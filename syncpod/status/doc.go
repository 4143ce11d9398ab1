// Package status computes the status to report for a pod, v1.PodStatus. A
// program that reports statuses imports it, such as a virtual-kubelet provider.
//
// [GeneratePodStatus] takes the pod, the last reported status, the pod's status in the runtime, its probe results, and the
// errors from container starts. It is pure: the time is an argument, no argument is modified, and the result shares no
// memory with them. [Merge] returns the status to publish, whose phase never goes back. Pass each published status as
// [Input.Previous] for the next one, whether or not it was delivered.
//
// A program that makes container statuses itself takes [Phase] and [ReadyConditions] alone.
//
// # What the caller provides
//
// The pod must have the API's defaults: the restart policy counts, and an empty one means Always. The runtime's status must
// be newer than the last change that the caller has made to the pod, because an exit that it lacks may be gone from the
// runtime in the next one. podworkers and package pleg ensure that with GetNewerThan.
//
// # The functions of a kubelet
//
// GeneratePodStatus is generateAPIPodStatus with convertStatusToAPIStatus, Merge is mergePodStatus, Phase is getPhase, and
// ReadyConditions are the functions in pkg/kubelet/status that generate conditions.
//
// # The order of the rules
//
// Each group has its own file, and builds on the groups before it. status.go calls them in this order, with the arguments in
// input.go. The phase order is in hold.go, and the pod with its last status in reported.go.
//
//  1. The instance of each container (container.go): the running one, otherwise the one with
//     the highest attempt. Without one, a reported exit stays; an init container of an
//     initialized pod counts as completed; any other container waits. A pod that admission
//     rejected has no containers (rejected.go).
//  2. The exit of that instance and of the one before it (termination.go).
//  3. Why a container waits, if it should start and could not. In a pod that has ended, no
//     container waits.
//  4. Whether a container has started and is ready (probes.go).
//  5. Allocated and actual resources, user, and mounts (resources.go).
//  6. The phase, from all containers (phase.go). Eviction and Blocked override it, and a
//     reported terminal phase overrides everything.
//  7. The conditions, from containers and phase (conditions.go).
//  8. The addresses (addresses.go).
//
// # Uses of the last status
//
//   - A terminal phase: it is final.
//   - The exits of containers: once an exit code was reported, every later status of that instance
//     has it, even if the runtime has lost the record or reports another one. ContainerStatusUnknown
//     with exit code 137 is used only for an instance that was reported as running and then
//     disappeared.
//   - Restart counts: they never decrease. A runtime that lost its records counts from 0 again.
//   - Whether a container had started and was ready: a restarted agent has no probe results yet. This
//     applies to the same container ID only. For the phase, it counts whether a sidecar has ever
//     started.
//   - Volume mounts: they are reported before a container is created, and do not change.
//   - The resources of a running container, if the runtime does not report them.
//   - Addresses: they stay until a sandbox has other addresses.
//   - Conditions: their transition time changes only with their status.
//   - The start time.
//
// Pod.Status contributes other writers' conditions and fields: readiness gates, nominated node, resource claims.
//
// # Limits
//
// The device health is not reported. An exit that was never observed cannot be reported: read the runtime's status before a
// container's record is removed.
//
// # Parity
//
// The statuses are kubelet v1.36.2's for thousands of recorded pods, except for the deviations in docs/PARITY.md.
package status
